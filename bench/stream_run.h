// A loaded model whose experts do not all fit: tokens one after another, prompts in passes, and
// what the disk had to do for them.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/loaded_model.h"
#include "generate/sampler.h"
#include "state/sequence.h"

namespace slotstream::bench {

// What a stretch of tokens cost.
struct StreamCost {
  size_t tokens = 0;
  double seconds = 0;
  uint64_t bytes = 0;         // of experts read, those read in vain included
  uint64_t misses = 0;        // experts that had to be read
  uint64_t hits = 0;          // experts found in the pool
  uint64_t read_ahead = 0;    // of the misses, asked for before their layer needed them
  uint64_t wasted = 0;        // records read in vain
  uint64_t guesses = 0;       // of experts that the pool did not hold
  uint64_t right = 0;         // of these, that were needed
  double read_seconds = 0;    // with a read in flight
  double waited_seconds = 0;  // of the computation, for experts

  double speed() const { return static_cast<double>(tokens) / seconds; }  // tokens/s
  double hit_rate() const {
    return static_cast<double>(hits) / static_cast<double>(std::max<uint64_t>(1, hits + misses));
  }
  // Bytes of the misses alone.
  double needed_bytes(uint64_t record_bytes) const {
    return static_cast<double>(misses) * static_cast<double>(record_bytes);
  }
  // The share of the time with reads that was not waited for.
  double hidden() const { return read_seconds > 0 ? 1 - waited_seconds / read_seconds : 0; }
};

class StreamRun {
 public:
  explicit StreamRun(engine::LoadedModel& loaded);

  // Decodes `tokens` more, sampled from what the model says.
  Result<StreamCost> Decode(size_t tokens, model::LookAheadMode look_ahead);
  // Reads a prompt of random ids on a context of its own.
  Result<StreamCost> Prefill(size_t tokens, model::LookAheadMode look_ahead);

 private:
  template <typename Work>
  Result<StreamCost> Measure(size_t tokens, model::LookAheadMode look_ahead, const Work& work);

  engine::LoadedModel& loaded_;
  state::Sequence sequence_;
  generate::Sampler sampler_;
  std::vector<float> logits_;
  std::mt19937 random_{1};
  uint32_t next_ = 1;
};

}  // namespace slotstream::bench
