#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "model/delta_net.h"
#include "model/expert_guess.h"
#include "model/hyper_connection.h"
#include "model/ngram_memory.h"

namespace slotstream::model {
namespace {

using checkpoint::LayerKind;
using checkpoint::ModelConfig;

// The most inputs that any product has.
size_t MaxInputs(const ModelConfig& config) {
  return std::max<size_t>({config.hc_width(), config.value_dim(),
                           size_t{config.num_attention_heads} * config.head_dim,
                           config.ple_embed_dim, config.hc_lowrank, config.shared_expert_size});
}

// Candidates for the next layer, per expert that a token needs: of the ranks behind, too few come
// true to be worth a read.
constexpr uint32_t kGuessesPerNeed = 2;
// Records of a token's guesses in flight: what must be waited for when a guess was wrong.
constexpr uint32_t kGuessesAtOnce = 2;
// Of a sweep's: each that any of its tokens is likely to need will be needed.
constexpr uint32_t kSweepGuessesAtOnce = 16;
// Tokens of a pass that are asked what the next layer needs. The experts of as many others are
// mostly among theirs.
constexpr size_t kSample = 64;

// The smallest quantization group that checkpoints have.
constexpr size_t kMinGroup = 32;

// The most that size(mode) is among the modes that passes may have.
template <typename Size>
size_t LargestOfModes(const ModelOptions& options, const Size& size) {
  if (!options.every_mode) return size(options.compute);
  size_t largest = 0;
  for (kernels::ComputeMode mode : kernels::kComputeModes) largest = std::max(largest, size(mode));
  return largest;
}

size_t BlockScratch(const checkpoint::Checkpoint& checkpoint, const ModelOptions& options) {
  const ModelConfig& config = checkpoint.config();
  const size_t rows = options.max_rows;
  return std::max({HyperConnectionScratch(config, rows), DeltaNetScratch(config, rows),
                   SparseAttentionScratch(config, rows), NgramMemoryScratch(config, rows),
                   LargestOfModes(options, [&](kernels::ComputeMode mode) {
                     return MoeScratch(config, checkpoint.experts().shape(), mode, rows);
                   })});
}

// What the captures of a pass are to the i-th layer of the kind that `layers` lists.
template <typename State>
std::vector<Capture<State>> CapturesOf(const Pass& pass,
                                       std::vector<State> state::Sequence::* layers, size_t i) {
  std::vector<Capture<State>> captures;
  for (const Capture<state::Sequence>& capture : pass.captures) {
    captures.push_back({capture.rows, &(capture.into->*layers)[i]});
  }
  return captures;
}

}  // namespace

Model::Workspace::Workspace(Arena& arena, const ModelConfig& config, const ModelOptions& options) {
  const size_t rows = options.max_rows;
  auto take = [&](size_t width) { return MutableRows{arena.Take(rows * width), width}; };
  residual = take(config.hc_width());
  x = take(config.hidden_size);
  y = take(config.hidden_size);
  inject = take(config.hc_count);
  cos = take(config.rotary_dim / 2);
  sin = take(config.rotary_dim / 2);
  const size_t bytes = LargestOfModes(options, [&](kernels::ComputeMode mode) {
    return Compute::ScratchBytes(mode, rows, MaxInputs(config), kMinGroup);
  });
  guess = arena.Take(ExpertGuessScratch(config, std::min(rows, kSample)));
  prepared = {reinterpret_cast<std::byte*>(arena.Take(bytes / sizeof(float))), bytes};
}

uint64_t Model::WorkspaceBytes(const checkpoint::Checkpoint& checkpoint,
                               const ModelOptions& options, int threads) {
  const ModelConfig& config = checkpoint.config();
  const size_t max_rows = options.max_rows;
  Arena counter;
  Workspace(counter, config, options);
  const uint64_t floats = counter.used() + BlockScratch(checkpoint, options);
  const uint64_t selected = max_rows * (config.indexer_budget + config.indexer_compress_ratio);
  const uint64_t routing = max_rows * config.experts_per_token * 4;
  return floats * sizeof(float) + (selected + routing) * sizeof(uint32_t) +
         AttentionScratch(config, 0, threads).bytes();
}

Result<std::unique_ptr<Model>> Model::Create(const checkpoint::Checkpoint& checkpoint,
                                             checkpoint::ResidentPart trunk,
                                             const kernels::KernelTable& kernel_table,
                                             ThreadPool& threads, experts::ExpertStore& store,
                                             std::span<experts::NgramStore* const> ngrams,
                                             const ModelOptions& options) {
  const ModelConfig& config = checkpoint.config();
  SS_ASSIGN_OR_RETURN(Weights weights, BindWeights(config, trunk));
  Arena counter;
  Workspace(counter, config, options);
  const size_t floats = counter.used() + BlockScratch(checkpoint, options);
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(
                          floats * sizeof(float),
                          fmt::format("the workspace of passes of {} tokens", options.max_rows)));
  return std::unique_ptr<Model>(new Model(checkpoint, std::move(trunk), std::move(weights),
                                          kernel_table, threads, store, ngrams, std::move(memory),
                                          options));
}

Model::Model(const checkpoint::Checkpoint& checkpoint, checkpoint::ResidentPart trunk,
             Weights weights, const kernels::KernelTable& kernel_table, ThreadPool& threads,
             experts::ExpertStore& store, std::span<experts::NgramStore* const> ngrams,
             AlignedBuffer memory, const ModelOptions& options)
    : config_(checkpoint.config()),
      trunk_(std::move(trunk)),
      weights_(std::move(weights)),
      store_(store),
      ngrams_(ngrams.begin(), ngrams.end()),
      options_(options),
      memory_(std::move(memory)),
      arena_(reinterpret_cast<float*>(memory_.data())),
      workspace_(arena_, config_, options),
      compute_(kernel_table, options.compute, threads, workspace_.prepared),
      rotary_(config_),
      attention_scratch_(config_, options.max_rows, threads.threads()),
      look_ahead_(config_.num_layers()),
      positions_(options.max_rows),
      ngram_rows_(config_.ple_layers.size()) {}

Status Model::UseMode(std::optional<kernels::ComputeMode> mode) {
  if (mode && *mode != options_.compute && !options_.every_mode) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a pass in mode {}; the model was made for {} only",
                            kernels::NameOf(*mode), kernels::NameOf(options_.compute)));
  }
  compute_.UseMode(mode.value_or(options_.compute));
  return {};
}

Status Model::CheckPass(const Pass& pass, const state::Sequence& sequence) const {
  if (pass.ids.empty() || pass.ids.size() > options_.max_rows) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a pass of {} tokens; 1 to {} are possible", pass.ids.size(),
                            options_.max_rows));
  }
  for (uint32_t id : pass.ids) {
    if (id >= config_.vocab_size) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("token id {} is not in the vocabulary of {}", id, config_.vocab_size));
    }
  }
  if (sequence.length() + pass.ids.size() > config_.max_position_embeddings) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} tokens after {} exceed the model's context of {}", pass.ids.size(),
                            sequence.length(), config_.max_position_embeddings));
  }
  if (!sequence.usable()) {
    return Fail(ErrorCode::kInternal, "the sequence was left midway by a failed pass");
  }
  const size_t layers = sequence.attention.size() + sequence.linear.size();
  if (layers != (pass.arriving == nullptr ? config_.num_layers() : 0)) {
    return Fail(ErrorCode::kInternal, fmt::format("a sequence with {} layers", layers));
  }
  size_t before = 0;
  for (const Capture<state::Sequence>& capture : pass.captures) {
    if (capture.rows <= before || capture.rows >= pass.ids.size() || capture.into->length() > 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("a snapshot after {} of {} tokens of a pass is out of order",
                              capture.rows, pass.ids.size()));
    }
    before = capture.rows;
  }
  return {};
}

Status Model::Forward(const Pass& pass, state::Sequence& sequence) {
  SS_RETURN_IF_ERROR(CheckPass(pass, sequence));
  SS_RETURN_IF_ERROR(UseMode(pass.compute));
  const size_t rows = pass.ids.size();
  const uint64_t start = store_.clock().NowNanos();
  sequence.BeginPass();
  for (const Capture<state::Sequence>& capture : pass.captures) capture.into->BeginPass();
  RequestNgrams(pass, sequence);
  Embed(pass);

  for (size_t r = 0; r < rows; ++r) {
    if (pass.positions.empty()) {
      positions_[r].fill(sequence.next_position() + static_cast<int32_t>(r));
    } else {
      positions_[r] = pass.positions[r];
    }
  }
  compute_.ForRows(rows, [&](size_t r) {
    rotary_.At(positions_[r], workspace_.cos.row(r), workspace_.sin.row(r));
  });

  for (uint32_t l = 0; l < config_.num_layers(); ++l) {
    if (pass.cancel != nullptr && pass.cancel->load(std::memory_order_relaxed)) {
      return Fail(ErrorCode::kCancelled, fmt::format("cancelled before layer {}", l));
    }
    if (pass.arriving != nullptr) {
      SS_RETURN_IF_ERROR(pass.arriving->Take(l, pass.cancel, sequence));
    }
    SS_RETURN_IF_ERROR(RunLayer(l, pass, sequence));
    if (pass.observe) pass.observe(l, workspace_.residual, rows);
  }
  if (pass.logit_rows > 0) {
    const size_t first = rows - pass.logit_rows;
    RunHead({workspace_.residual.row(first), workspace_.residual.stride}, pass.logit_rows,
            pass.logits);
  }
  EndPass(pass, sequence);
  if (rows == 1) look_ahead_pays_.Record(store_.clock().NowNanos() - start);
  return {};
}

void Model::EndPass(const Pass& pass, state::Sequence& sequence) {
  int32_t next_position = sequence.next_position();
  auto capture = pass.captures.begin();
  for (size_t r = 0; r < pass.ids.size(); ++r) {
    for (; capture != pass.captures.end() && capture->rows == r; ++capture) {
      capture->into->EndPass(sequence.length() + r, next_position);
    }
    next_position = std::max(next_position, *std::ranges::max_element(positions_[r]) + 1);
  }
  sequence.EndPass(pass.ids.size(), next_position);
}

void Model::Embed(const Pass& pass) {
  const size_t hidden = config_.hidden_size;
  const auto copy_to_streams = [&](const float* from, float* streams, size_t first) {
    for (size_t s = first; s < config_.hc_count; ++s) {
      std::copy_n(from, hidden, streams + s * hidden);
    }
  };
  compute_.ForRows(pass.ids.size(), [&](size_t r) {
    float* streams = workspace_.residual.row(r);
    compute_.kernels().dequantize_row(weights_.embed.row(pass.ids[r]), weights_.embed.width,
                                      weights_.embed.group, streams);
    copy_to_streams(streams, streams, 1);
  });
  for (const SplicedRow& spliced : pass.spliced) {
    copy_to_streams(spliced.embedding, workspace_.residual.row(spliced.row), 0);
  }
}

// Which rows a token needs depends on ids alone, so they are asked for before anything else.
void Model::RequestNgrams(const Pass& pass, state::Sequence& sequence) {
  const std::span<const uint32_t> ids = pass.ids;
  std::vector<uint32_t> context(std::max(config_.ngram_size, 1u));
  const size_t heads = config_.ple_layers.empty() ? 0 : config_.ngram_heads();
  for (auto& rows : ngram_rows_) rows.resize(ids.size() * heads);
  auto capture = pass.captures.begin();
  for (size_t r = 0; r < ids.size(); ++r) {
    for (; capture != pass.captures.end() && capture->rows == r; ++capture) {
      capture->into->ngram_context = sequence.ngram_context;
    }
    sequence.ngram_context.Push(ids[r], context);
    for (size_t i = 0; i < ngram_rows_.size(); ++i) {
      weights_.ngrams[i].hash.Rows(context, std::span(ngram_rows_[i]).subspan(r * heads, heads));
    }
  }
  for (size_t i = 0; i < ngram_rows_.size(); ++i) ngrams_[i]->Begin(ngram_rows_[i]);
}

Status Model::RunLayer(uint32_t l, const Pass& pass, state::Sequence& sequence) {
  const LayerWeights& layer = weights_.layers[l];
  const size_t rows = pass.ids.size();
  const Workspace& w = workspace_;

  const auto ngram = std::ranges::find(config_.ple_layers, l);
  if (ngram != config_.ple_layers.end()) {
    const auto i = static_cast<size_t>(ngram - config_.ple_layers.begin());
    SS_RETURN_IF_ERROR(
        RunNgramMemory(compute_, config_, weights_.ngrams[i], *ngrams_[i], rows, sequence.ngram[i],
                       CapturesOf(pass, &state::Sequence::ngram, i), w.residual, arena_));
  }

  ReadStreams(compute_, config_, layer.attention_site, w.residual, rows, w.x, w.inject, arena_);
  if (layer.kind == LayerKind::kLinearAttention) {
    RunDeltaNet(compute_, config_, weights_.delta_nets[layer.mixer], w.x, rows,
                sequence.linear[layer.mixer],
                CapturesOf(pass, &state::Sequence::linear, layer.mixer), w.y, arena_);
  } else {
    RunSparseAttention(compute_, config_, weights_.attentions[layer.mixer], rotary_, w.x, rows,
                       positions_.data(), {w.cos, w.sin}, sequence.attention[layer.mixer],
                       CapturesOf(pass, &state::Sequence::attention, layer.mixer), w.y,
                       attention_scratch_, arena_);
  }
  WriteStreams(compute_, config_, w.y, w.inject, rows, w.residual);

  ReadStreams(compute_, config_, layer.mlp_site, w.residual, rows, w.x, w.inject, arena_);
  Status moe = RunMoe(
      compute_, config_, layer.moe, store_, l, pass.admit_experts, w.x, rows, routing_,
      [&] { ExpectNext(l, pass); }, w.y, arena_);
  if (options_.trace != nullptr) Record(l, pass, sequence);
  SS_RETURN_IF_ERROR(std::move(moe));
  WriteStreams(compute_, config_, w.y, w.inject, rows, w.residual);
  return {};
}

// Tells the store what layer l + 1 will need, so that the disk has work while this layer and the
// next one's mixer compute.
void Model::ExpectNext(uint32_t l, const Pass& pass) {
  if (look_ahead_mode_ == LookAheadMode::kOff || store_.pool().holds_everything()) return;
  const size_t rows = pass.ids.size();
  const bool last = l + 1 == config_.num_layers();
  const uint32_t top_k = config_.experts_per_token;
  const auto guess = [&](ConstRows residual, size_t guessed_rows, uint32_t per_row) {
    GuessExperts(compute_, config_, weights_.layers[l + 1], residual, guessed_rows, per_row,
                 guesses_, Arena(workspace_.guess));
  };
  if (rows == 1) {
    look_ahead_.Judge(l, routing_.needs());
    const bool pays = look_ahead_mode_ == LookAheadMode::kOn || look_ahead_pays_.use();
    if (last || !pays || !look_ahead_.Due(l + 1)) return;
    guess(workspace_.residual, 1, kGuessesPerNeed * top_k);
    store_.Expect(l + 1, look_ahead_.Choose(l + 1, guesses_, store_.pool()), kGuessesAtOnce);
    return;
  }
  if (!store_.sweeps(rows)) return;
  if (l == 0) first_needs_.assign(routing_.needs().begin(), routing_.needs().end());
  if (!last) {
    const size_t sample = std::min(rows, kSample);
    guess({workspace_.residual.row(0), workspace_.residual.stride * (rows / sample)}, sample,
          top_k);
    AddTheRest(config_.num_experts, routing_.needs().size(), guesses_);
    store_.Expect(l + 1, guesses_, kSweepGuessesAtOnce);
  } else if (std::min<size_t>(pass.rows_after, options_.max_rows) * 2 >= rows) {
    // The prompt's next pass: its tokens are still unknown to the first layer's router, but most
    // experts are needed again.
    std::ranges::stable_sort(first_needs_, std::greater(), &experts::ExpertNeed::rows);
    guesses_.clear();
    for (const experts::ExpertNeed& need : first_needs_) guesses_.push_back(need.expert);
    store_.Expect(0, guesses_, kSweepGuessesAtOnce);
  }
}

void Model::Record(uint32_t l, const Pass& pass, const state::Sequence& sequence) {
  options_.trace->Append({.position = static_cast<uint32_t>(sequence.length()),
                          .layer = l,
                          .rows = static_cast<uint32_t>(pass.ids.size()),
                          // Only the passes of a prompt leave out logits or admit.
                          .prompt = pass.admit_experts || pass.logit_rows == 0,
                          .admit = pass.admit_experts},
                         routing_.experts());
}

void Model::RunHead(ConstRows residual, size_t rows, float* logits) {
  ReadStreams(compute_, config_, weights_.final_mixer, residual, rows, workspace_.x, {}, arena_);
  compute_.Run(workspace_.x, config_.hidden_size, rows,
               {{weights_.lm_head, {logits, config_.vocab_size}}});
}

Status Model::Head(ConstRows residual, size_t rows, std::optional<kernels::ComputeMode> compute,
                   float* logits) {
  if (rows > options_.max_rows) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("logits of {} rows at once; at most {} are possible", rows, options_.max_rows));
  }
  SS_RETURN_IF_ERROR(UseMode(compute));
  RunHead(residual, rows, logits);
  return {};
}

}  // namespace slotstream::model
