#include "engine/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "state/sequence.h"

namespace slotstream::engine {
namespace {

using kernels::ComputeMode;

// Rows of logits at a time: enough that the head's weights are read from memory for many rows;
// 16 MB for each mode at a vocabulary of 248,000.
constexpr size_t kLogitRows = 16;
// Two rows of log-probabilities in double precision.
constexpr size_t kProbabilityRows = 4;

class Measurement {
 public:
  Measurement(LoadedModel& loaded, size_t tokens, const QualityOptions& options)
      : model_(loaded.model()),
        config_(loaded.config()),
        options_(options),
        rows_(std::min(kLogitRows, model_.max_rows())) {
    modes_.push_back(options.against);
    modes_.insert(modes_.end(), options.tried.begin(), options.tried.end());
    for (ComputeMode mode : options.tried) report_.tried.push_back({mode, {}, {}});
    const size_t window = std::min<size_t>(options.window, tokens);
    streams_.resize(modes_.size(), std::vector<float>(window * config_.hc_width()));
    logits_.resize(modes_.size(), std::vector<float>(rows_ * config_.vocab_size));
    total_ = tokens * modes_.size();
  }

  // `vocabulary`: the ids from 0 on that have a token.
  Status Window(std::span<const uint32_t> ids, size_t vocabulary) {
    for (size_t m = 0; m < modes_.size(); ++m) SS_RETURN_IF_ERROR(Read(ids, m));
    for (size_t first = 0; first < ids.size(); first += rows_) {
      const size_t rows = std::min(rows_, ids.size() - first);
      for (size_t m = 0; m < modes_.size(); ++m) {
        const kernels::ConstRows streams{streams_[m].data(), config_.hc_width()};
        SS_RETURN_IF_ERROR(
            model_.Head({streams.row(first), streams.stride}, rows, modes_[m], logits_[m].data()));
      }
      for (size_t r = 0; r < rows; ++r) {
        const size_t next = first + r + 1;
        SS_RETURN_IF_ERROR(Compare(r, next < ids.size() ? &ids[next] : nullptr, vocabulary));
      }
    }
    ++report_.windows;
    return {};
  }

  QualityReport TakeReport() { return std::move(report_); }

 private:
  // One mode's pass over a window, into its streams.
  Status Read(std::span<const uint32_t> ids, size_t m) {
    const size_t width = config_.hc_width();
    state::Sequence sequence(config_);
    for (size_t first = 0; first < ids.size(); first += model_.max_rows()) {
      const size_t rows = std::min(model_.max_rows(), ids.size() - first);
      model::Pass pass;
      pass.ids = ids.subspan(first, rows);
      pass.compute = modes_[m];
      pass.admit_experts = first + rows == ids.size();
      pass.cancel = options_.cancel;
      pass.observe = [&](uint32_t layer, kernels::ConstRows residual, size_t count) {
        if (layer + 1 != config_.num_layers()) return;
        for (size_t r = 0; r < count; ++r) {
          std::memcpy(streams_[m].data() + (first + r) * width, residual.row(r),
                      width * sizeof(float));
        }
      };
      SS_RETURN_IF_ERROR(model_.Forward(pass, sequence));
      done_ += rows;
      if (options_.progress) options_.progress(done_, total_);
    }
    return {};
  }

  // Row r of all modes' logits; `next` is the token that came, or null at a window's end.
  Status Compare(size_t r, const uint32_t* next, size_t vocabulary) {
    SS_RETURN_IF_ERROR(Probabilities(0, r, vocabulary, against_));
    if (next != nullptr) report_.perplexity.Add(against_[*next]);
    for (size_t i = 0; i < report_.tried.size(); ++i) {
      SS_RETURN_IF_ERROR(Probabilities(i + 1, r, vocabulary, tried_));
      report_.tried[i].divergence.Add(against_, tried_);
      if (next != nullptr) report_.tried[i].perplexity.Add(tried_[*next]);
    }
    return {};
  }

  Status Probabilities(size_t m, size_t r, size_t vocabulary, std::vector<double>& out) const {
    out.resize(vocabulary);
    const std::span logits(logits_[m].data() + r * config_.vocab_size, vocabulary);
    if (Status status = generate::LogSoftmax(logits, out); !status) {
      return Fail(status.error().code, fmt::format("in mode {}: {}", kernels::NameOf(modes_[m]),
                                                   status.error().message));
    }
    return {};
  }

  model::Model& model_;
  const checkpoint::ModelConfig& config_;
  const QualityOptions& options_;
  size_t rows_;                              // of logits at a time
  std::vector<ComputeMode> modes_;           // first the one compared with
  std::vector<std::vector<float>> streams_;  // per mode [window, N*H]
  std::vector<std::vector<float>> logits_;   // per mode [rows_, vocab_size]
  std::vector<double> against_, tried_;      // log-probabilities of one row
  size_t done_ = 0;
  size_t total_;
  QualityReport report_;
};

}  // namespace

void AddQualityWishes(const QualityOptions& options, plan::Wishes& wishes) {
  const size_t modes = options.tried.size() + 1;
  wishes.compute = options.against;
  wishes.every_mode = true;
  wishes.max_context = options.window;
  wishes.kept = {.logits = modes * kLogitRows + kProbabilityRows,
                 .streams = uint64_t{modes} * options.window};
}

Result<QualityReport> MeasureQuality(LoadedModel& loaded, std::span<const uint32_t> ids,
                                     const QualityOptions& options) {
  if (ids.size() < 2 || options.window < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} token(s) in windows of {}: there is no next token to predict; at "
                            "least two are needed",
                            ids.size(), options.window));
  }
  SS_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer, loaded.tokenizer());
  const size_t vocabulary = std::min<size_t>(tokenizer->vocab_size(), loaded.config().vocab_size);
  const auto beyond = std::ranges::find_if(ids, [&](uint32_t id) { return id >= vocabulary; });
  if (beyond != ids.end()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("token id {} is not in the vocabulary of {}", *beyond, vocabulary));
  }
  Measurement measurement(loaded, ids.size(), options);
  for (size_t first = 0; first < ids.size(); first += options.window) {
    const size_t tokens = std::min<size_t>(options.window, ids.size() - first);
    SS_RETURN_IF_ERROR(measurement.Window(ids.subspan(first, tokens), vocabulary));
  }
  return measurement.TakeReport();
}

}  // namespace slotstream::engine
