#include "state/arriving_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "io/read_queue.h"

namespace slotstream::state {
namespace {

using checkpoint::LayerKind;

std::span<std::byte> BytesOf(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

RowBlocks& RowsOf(AttentionState& layer, PieceKind kind) {
  if (kind == PieceKind::kKeyRows) return layer.keys;
  return kind == PieceKind::kValueRows ? layer.values : layer.index_keys;
}

// The rows of a list that a segment has.
uint64_t RowCount(const AttentionState& layer, PieceKind kind, const SegmentRef& segment) {
  if (kind != PieceKind::kIndexRows) return segment.end - segment.begin;
  const uint64_t ratio = layer.open_block.size() / layer.index_keys.width();
  return segment.end / ratio - segment.begin / ratio;
}

constexpr PieceKind kRowKinds[] = {PieceKind::kKeyRows, PieceKind::kValueRows,
                                   PieceKind::kIndexRows};

}  // namespace

// Makes the layers' memory as their pieces are asked for, and opens the gate behind them.
class ArrivingState::Receiver final : public PieceReceiver {
 public:
  explicit Receiver(ArrivingState& state) : state_(state) {}

  std::vector<std::span<std::byte>> Place(size_t i) override {
    const Part& part = state_.parts_[i];
    const checkpoint::ModelConfig& config = state_.config_;
    Layer& layer = state_.layers_[part.layer];
    if (part.kind == PieceKind::kNgram) return {BytesOf(layer.ngram.emplace(config).conv)};
    if (part.kind == PieceKind::kLinear) {
      LinearState& linear = layer.linear.emplace(config);
      return {BytesOf(linear.conv), BytesOf(linear.recurrent)};
    }
    if (part.kind == PieceKind::kAttention) {
      AttentionState& attention = layer.attention.emplace(config);
      return {BytesOf(attention.open_block),
              std::as_writable_bytes(std::span(attention.open_block_position))};
    }
    RowBlocks& rows = RowsOf(*layer.attention, part.kind);
    std::vector<std::span<std::byte>> spans;
    for (uint64_t left =
             RowCount(*layer.attention, part.kind, state_.about_.segments[part.segment]);
         left > 0;) {
      const std::span<float> some = rows.AppendRows(left);
      spans.push_back(std::as_writable_bytes(some));
      left -= some.size() / rows.width();
    }
    return spans;
  }

  void Arrived(size_t pieces) override {
    if (pieces == state_.pieces_.size()) {
      state_.nanos_.store(state_.clock_.NowNanos() - state_.start_nanos_,
                          std::memory_order_relaxed);
    }
    const auto layers = std::ranges::upper_bound(state_.layer_ends_, pieces);
    state_.gate_.OpenTo(static_cast<uint32_t>(layers - state_.layer_ends_.begin()));
  }

  bool Urgent() const override { return state_.gate_.wanted(); }

 private:
  ArrivingState& state_;
};

Result<std::unique_ptr<ArrivingState>> ArrivingState::Start(
    const checkpoint::ModelConfig& config, PrefixHead about, Files files,
    std::unique_ptr<io::ReadBackend> backend, bool keep, const Clock& clock) {
  auto state = std::unique_ptr<ArrivingState>(
      new ArrivingState(config, std::move(about), std::move(files), keep, clock));
  SS_RETURN_IF_ERROR(state->Plan());
  try {
    state->thread_ = std::thread([&arriving = *state, reads = std::move(backend)]() mutable {
      arriving.Read(std::move(reads));
    });
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("cannot start the thread that reads a stored state: {}; raise the "
                            "limit of processes (ulimit -u)",
                            error.what()));
  }
  return state;
}

ArrivingState::ArrivingState(const checkpoint::ModelConfig& config, PrefixHead about, Files files,
                             bool keep, const Clock& clock)
    : config_(config),
      about_(std::move(about)),
      files_(std::move(files)),
      keep_(keep),
      clock_(clock),
      start_nanos_(clock.NowNanos()),
      layers_(config.num_layers()),
      gate_(clock) {}

ArrivingState::~ArrivingState() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

Status ArrivingState::Add(const Part& part, const io::File& file, const Piece& piece,
                          uint64_t bytes) {
  // Before memory is taken for it.
  if (piece.kind != part.kind || piece.bytes != bytes) return Damaged(file, "of another geometry");
  parts_.push_back(part);
  pieces_.push_back({&file, piece});
  return {};
}

Status ArrivingState::Plan() {
  const auto floats = [](const auto&... lists) { return (lists.size() + ...) * sizeof(float); };
  const Sequence empty = Sequence::WithoutLayers(config_);
  AttentionState attention(config_);
  const LinearState linear(config_);
  const NgramState ngram(config_);
  const auto attention_layers =
      static_cast<size_t>(std::ranges::count(config_.layers, LayerKind::kFullAttention));
  // A head has all attention layers, then the others, then the n-gram layers.
  size_t next_attention = kFirstLayerPiece;
  size_t next_linear = next_attention + attention_layers;
  const size_t first_ngram = kFirstLayerPiece + config_.num_layers();
  if (about_.pieces.size() != first_ngram + config_.ple_layers.size() ||
      about_.context.size() != empty.ngram_context.previous().size()) {
    return Damaged(*files_.head, "of another geometry");
  }
  for (size_t s = 0; s < files_.rows.size(); ++s) {
    if (files_.row_pieces[s].size() != std::size(kRowKinds) * attention_layers) {
      return Damaged(*files_.rows[s], "of another geometry");
    }
  }
  for (uint32_t l = 0; l < config_.num_layers(); ++l) {
    const auto add = [&](PieceKind kind, size_t at, uint64_t bytes) {
      return Add({.layer = l, .kind = kind}, *files_.head, about_.pieces[at], bytes);
    };
    const auto ple = std::ranges::find(config_.ple_layers, l);
    if (ple != config_.ple_layers.end()) {
      const auto i = static_cast<size_t>(ple - config_.ple_layers.begin());
      SS_RETURN_IF_ERROR(add(PieceKind::kNgram, first_ngram + i, floats(ngram.conv)));
    }
    if (config_.layers[l] == LayerKind::kLinearAttention) {
      SS_RETURN_IF_ERROR(
          add(PieceKind::kLinear, next_linear++, floats(linear.conv, linear.recurrent)));
    } else {
      const size_t i = next_attention - kFirstLayerPiece;
      SS_RETURN_IF_ERROR(add(PieceKind::kAttention, next_attention++,
                             floats(attention.open_block) + sizeof(Position)));
      for (size_t k = 0; k < std::size(kRowKinds); ++k) {
        const size_t width = RowsOf(attention, kRowKinds[k]).width();
        for (size_t s = 0; s < files_.rows.size(); ++s) {
          const uint64_t rows = RowCount(attention, kRowKinds[k], about_.segments[s]);
          SS_RETURN_IF_ERROR(Add({.layer = l, .kind = kRowKinds[k], .segment = s}, *files_.rows[s],
                                 files_.row_pieces[s][std::size(kRowKinds) * i + k],
                                 rows * width * sizeof(float)));
        }
      }
    }
    layer_ends_.push_back(pieces_.size());
  }
  return {};
}

void ArrivingState::Read(std::unique_ptr<io::ReadBackend> backend) {
  try {
    io::ReadQueue queue(std::move(backend), clock_);
    Receiver receiver(*this);
    Status status = ReadPieces(pieces_, queue, receiver, stop_);
    if (!status) gate_.Break(std::move(status).error());
  } catch (const std::exception& error) {
    gate_.Break({ErrorCode::kResourceLimit, fmt::format("no memory for the state in {}: {}",
                                                        files_.head->path(), error.what())});
  }
}

Sequence ArrivingState::Begin() const {
  Sequence sequence = Sequence::WithoutLayers(config_);
  std::vector<uint32_t> scratch(about_.context.size() + 1);
  for (size_t i = about_.context.size(); i > 0; --i) {
    sequence.ngram_context.Push(about_.context[i - 1], scratch);
  }
  sequence.EndPass(length(), about_.next_position);
  return sequence;
}

Status ArrivingState::Take(uint32_t layer, const std::atomic<bool>* cancel, Sequence& sequence) {
  SS_RETURN_IF_ERROR(gate_.Wait(layer, cancel));
  const auto add = [this](auto& from, auto& to) {
    if (!from) return;
    if (keep_) {
      to.push_back(*from);
    } else {
      to.push_back(std::move(*from));
    }
  };
  Layer& there = layers_[layer];
  add(there.ngram, sequence.ngram);
  add(there.linear, sequence.linear);
  add(there.attention, sequence.attention);
  ++taken_;
  return {};
}

std::shared_ptr<const Sequence> ArrivingState::Whole() {
  auto whole = std::make_shared<Sequence>(Begin());
  for (Layer& layer : layers_) {
    if (layer.ngram) whole->ngram.push_back(std::move(*layer.ngram));
    if (layer.linear) whole->linear.push_back(std::move(*layer.linear));
    if (layer.attention) whole->attention.push_back(std::move(*layer.attention));
  }
  return whole;
}

uint64_t ArrivingState::nanos() const {
  // Who waits for the last layer goes on a moment after it came.
  return std::max(nanos_.load(std::memory_order_relaxed), waited_nanos());
}

uint64_t ArrivingState::bytes_read() const {
  uint64_t bytes = 0;
  for (const WantedPiece& piece : pieces_) bytes += piece.piece.bytes;
  return bytes;
}

}  // namespace slotstream::state
