#include "server/server_stats.h"

namespace slotstream::server {

void ServerStats::CountRequest() {
  std::lock_guard lock(mutex_);
  ++stats_.requests;
}

void ServerStats::CountRefused() {
  std::lock_guard lock(mutex_);
  ++stats_.refused;
}

void ServerStats::CountBegun() {
  std::lock_guard lock(mutex_);
  ++stats_.generations;
}

void ServerStats::CountEnd(const Result<generate::GenerationResult>& result) {
  std::lock_guard lock(mutex_);
  if (!result) {
    ++(result.error().code == ErrorCode::kCancelled ? stats_.cancelled : stats_.failed);
    return;
  }
  ++stats_.finished;
  stats_.prompt_tokens += result->prompt_tokens;
  stats_.cached_tokens += result->cached_tokens;
  stats_.reply_tokens += result->output.size();
  stats_.prefill_nanos += result->prefill_nanos;
  stats_.decode_nanos += result->decode_nanos;
}

void ServerStats::Keep(const experts::StoreStats& experts,
                       const std::vector<experts::NgramStats>& ngrams) {
  std::lock_guard lock(mutex_);
  stats_.experts = experts;
  stats_.ngrams = {};
  for (const experts::NgramStats& layer : ngrams) {
    stats_.ngrams.hits += layer.hits;
    stats_.ngrams.misses += layer.misses;
    stats_.ngrams.retries += layer.retries;
    stats_.ngrams.bytes_read += layer.bytes_read;
    stats_.ngrams.wait_nanos += layer.wait_nanos;
  }
}

StatsSnapshot ServerStats::snapshot() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace slotstream::server
