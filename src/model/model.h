// The text model: ids in, logits out, one pass of consecutive tokens at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "experts/expert_store.h"
#include "experts/look_ahead.h"
#include "experts/ngram_store.h"
#include "experts/timed_choice.h"
#include "experts/trace_writer.h"
#include "kernels/kernels.h"
#include "model/moe.h"
#include "model/products.h"
#include "model/rotary.h"
#include "model/sparse_attention.h"
#include "model/weights.h"
#include "state/arriving_state.h"
#include "state/sequence.h"

namespace slotstream::model {

// An embedding that takes the place of a token's own, as a picture's rows do: `row` counts the
// tokens of the pass, `embedding` has H floats.
struct SplicedRow {
  size_t row = 0;
  const float* embedding = nullptr;
};

struct Pass {
  std::span<const uint32_t> ids;               // 1 to max_rows, each below vocab_size
  std::span<const state::Position> positions;  // one per id; empty: one after another, as in text
  std::span<const SplicedRow> spliced;
  std::optional<kernels::ComputeMode> compute;  // absent: the model's own
  // Logits are computed for the last `logit_rows` tokens, into logits [logit_rows, vocab_size].
  size_t logit_rows = 0;
  float* logits = nullptr;
  // Snapshots on the way, each within the pass (rows below ids.size()) into a fresh sequence, which
  // is usable only once the pass succeeded.
  Captures<state::Sequence> captures;
  // Where the sequence's layers come from before each is computed; null: they are there.
  state::ArrivingState* arriving = nullptr;
  // The last pass of a prompt: experts that it swept past the pool may stay there.
  bool admit_experts = false;
  // Tokens of the prompt after this pass: a hint of what to read ahead at its end.
  size_t rows_after = 0;
  // Looked at before each layer; may be null. A cancelled pass fails with kCancelled.
  const std::atomic<bool>* cancel = nullptr;
  // Told the residual streams [rows, N*H] after each layer; may be empty.
  std::function<void(uint32_t layer, kernels::ConstRows residual, size_t rows)> observe;
};

struct ModelOptions {
  size_t max_rows = 1;  // of a pass
  kernels::ComputeMode compute = kernels::ComputeMode::kExact;
  bool every_mode = false;  // passes may ask for any mode: the workspace fits the largest
  experts::TraceWriter* trace = nullptr;  // told of every visit of a layer's experts; may be null
};

// Whether what the next layer is likely to need is read while the disk is idle. By itself it does
// where that makes tokens faster.
enum class LookAheadMode { kAuto, kOn, kOff };

// Not thread-safe: one pass at a time.
class Model {
 public:
  // `checkpoint`, `kernel_table`, `threads`, `store` and `ngrams` (one per n-gram layer) must
  // outlive the model.
  static Result<std::unique_ptr<Model>> Create(const checkpoint::Checkpoint& checkpoint,
                                               checkpoint::ResidentPart trunk,
                                               const kernels::KernelTable& kernel_table,
                                               ThreadPool& threads, experts::ExpertStore& store,
                                               std::span<experts::NgramStore* const> ngrams,
                                               const ModelOptions& options);

  const checkpoint::ModelConfig& config() const { return config_; }
  size_t max_rows() const { return options_.max_rows; }

  // Moves `sequence` on by the pass's tokens. Errors: kInvalidArgument (an id, a size or a mode
  // that the model does not take; the sequence is unchanged), kCancelled, the stores' errors and
  // those of a state that arrives; after these the sequence is no longer usable().
  Status Forward(const Pass& pass, state::Sequence& sequence);

  // Logits [rows, vocab_size] from the residual streams that observers see after the last layer:
  // the same bits that their pass gives in this mode. At most max_rows() rows. Errors:
  // kInvalidArgument.
  Status Head(kernels::ConstRows residual, size_t rows, std::optional<kernels::ComputeMode> compute,
              float* logits);

  // Anything but kAuto is for measurements.
  void UseLookAhead(LookAheadMode mode) { look_ahead_mode_ = mode; }
  // How good the guesses of the next layer's experts were.
  const experts::LookAheadStats& look_ahead_stats() const { return look_ahead_.stats(); }

  // Bytes that a model with these options allocates besides trunk, stores and sequences.
  static uint64_t WorkspaceBytes(const checkpoint::Checkpoint& checkpoint,
                                 const ModelOptions& options, int threads);

 private:
  // Buffers that live through a pass; `arena` is what the blocks share.
  struct Workspace {
    Workspace(Arena& arena, const checkpoint::ModelConfig& config, const ModelOptions& options);
    MutableRows residual;           // [rows, N*H]
    MutableRows x;                  // [rows, H], a block's input
    MutableRows y;                  // [rows, H], its output
    MutableRows inject;             // [rows, N]
    MutableRows cos, sin;           // [rows, rotary_dim / 2]
    std::span<std::byte> prepared;  // the Compute's scratch
    float* guess;                   // ExpertGuessScratch
  };

  Model(const checkpoint::Checkpoint& checkpoint, checkpoint::ResidentPart trunk, Weights weights,
        const kernels::KernelTable& kernel_table, ThreadPool& threads, experts::ExpertStore& store,
        std::span<experts::NgramStore* const> ngrams, AlignedBuffer memory,
        const ModelOptions& options);

  Status UseMode(std::optional<kernels::ComputeMode> mode);
  Status CheckPass(const Pass& pass, const state::Sequence& sequence) const;
  void Embed(const Pass& pass);
  void RequestNgrams(const Pass& pass, state::Sequence& sequence);
  void EndPass(const Pass& pass, state::Sequence& sequence);
  Status RunLayer(uint32_t l, const Pass& pass, state::Sequence& sequence);
  void ExpectNext(uint32_t l, const Pass& pass);
  void Record(uint32_t l, const Pass& pass, const state::Sequence& sequence);
  void RunHead(kernels::ConstRows residual, size_t rows, float* logits);

  const checkpoint::ModelConfig& config_;
  checkpoint::ResidentPart trunk_;
  Weights weights_;
  experts::ExpertStore& store_;
  std::vector<experts::NgramStore*> ngrams_;
  ModelOptions options_;
  AlignedBuffer memory_;
  Arena arena_;  // after the workspace
  Workspace workspace_;
  Compute compute_;
  Rotary rotary_;
  AttentionScratch attention_scratch_;
  Routing routing_;
  LookAheadMode look_ahead_mode_ = LookAheadMode::kAuto;
  experts::LookAhead look_ahead_;
  experts::TimedChoice look_ahead_pays_;
  std::vector<experts::ExpertNeed> first_needs_;  // of the first layer in the last sweep
  std::vector<uint32_t> guesses_;                 // kept to avoid allocation on the path
  std::vector<state::Position> positions_;
  std::vector<std::vector<uint64_t>> ngram_rows_;  // per n-gram layer
};

}  // namespace slotstream::model
