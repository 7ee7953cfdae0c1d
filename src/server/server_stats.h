// What the server has done so far, for /metrics and /slotstream/status.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "experts/expert_store.h"
#include "experts/ngram_store.h"
#include "experts/pool_snapshot.h"
#include "generate/generator.h"

namespace slotstream::server {

struct StatsSnapshot {
  uint64_t requests = 0;            // HTTP
  std::map<int, uint64_t> answers;  // by status; 0: the client left before there was one
  uint64_t generations = 0;         // begun
  uint64_t finished = 0;            // generations that reached their end
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;  // because the queue was full
  uint64_t late = 0;     // the first token did not come in time
  uint64_t first_tokens = 0;
  uint64_t first_token_nanos = 0;  // from acceptance, of all first_tokens
  double prefill_rate = 0;         // tokens a second, of the last generation that ended
  double decode_rate = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of prompt_tokens
  uint64_t reply_tokens = 0;
  uint64_t prefill_nanos = 0;
  uint64_t decode_nanos = 0;
  experts::StoreStats experts;
  experts::NgramStats ngrams;  // of all layers
  // Of the generation that runs, or ran last.
  size_t prefill_done = 0;  // tokens of its prompt that were read
  size_t prefill_total = 0;
};

// Thread-safe.
class ServerStats {
 public:
  void CountRequest();
  void CountAnswer(int status);
  void CountRefused();
  void CountLate();
  void CountBegun();
  void CountFirstToken(std::chrono::nanoseconds since_accepted);
  void CountEnd(const Result<generate::GenerationResult>& result);
  void CountPrefill(size_t done, size_t total);
  // The stores may be asked only on the engine's thread, so they are asked there and kept here.
  void Keep(const experts::StoreStats& experts, const std::vector<experts::NgramStats>& ngrams,
            experts::PoolSnapshot pool);

  StatsSnapshot snapshot() const;
  // Of no slots before the first Keep.
  experts::PoolSnapshot pool() const;

 private:
  mutable std::mutex mutex_;
  StatsSnapshot stats_;
  experts::PoolSnapshot pool_;
};

}  // namespace slotstream::server
