// What the server has done so far, for /metrics and /slotstream/status.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "experts/expert_store.h"
#include "experts/ngram_store.h"
#include "generate/generator.h"

namespace slotstream::server {

struct StatsSnapshot {
  uint64_t requests = 0;     // HTTP
  uint64_t generations = 0;  // begun
  uint64_t finished = 0;     // generations that reached their end
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;  // because the queue was full
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of prompt_tokens
  uint64_t reply_tokens = 0;
  uint64_t prefill_nanos = 0;
  uint64_t decode_nanos = 0;
  experts::StoreStats experts;
  experts::NgramStats ngrams;  // of all layers
};

// Thread-safe.
class ServerStats {
 public:
  void CountRequest();
  void CountRefused();
  void CountBegun();
  void CountEnd(const Result<generate::GenerationResult>& result);
  // The stores may be asked only on the engine's thread, so they are asked there and kept here.
  void Keep(const experts::StoreStats& experts, const std::vector<experts::NgramStats>& ngrams);

  StatsSnapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  StatsSnapshot stats_;
};

}  // namespace slotstream::server
