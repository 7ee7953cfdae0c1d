#include "server/server_stats.h"

#include <utility>

namespace slotstream::server {

void ServerStats::CountRequest() {
  std::lock_guard lock(mutex_);
  ++stats_.requests;
}

void ServerStats::CountAnswer(int status) {
  std::lock_guard lock(mutex_);
  ++stats_.answers[status];
}

void ServerStats::CountRefused() {
  std::lock_guard lock(mutex_);
  ++stats_.refused;
}

void ServerStats::CountLate() {
  std::lock_guard lock(mutex_);
  ++stats_.late;
}

void ServerStats::CountFirstToken(std::chrono::nanoseconds since_accepted) {
  std::lock_guard lock(mutex_);
  ++stats_.first_tokens;
  stats_.first_token_nanos += static_cast<uint64_t>(since_accepted.count());
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
  const auto rate = [](size_t tokens, uint64_t nanos) {
    return nanos == 0 ? 0 : static_cast<double>(tokens) * 1e9 / static_cast<double>(nanos);
  };
  stats_.prefill_rate = rate(result->prompt_tokens, result->prefill_nanos);
  // The first token comes with the prompt.
  if (result->output.size() > 1) {
    stats_.decode_rate = rate(result->output.size() - 1, result->decode_nanos);
  }
}

void ServerStats::CountPrefill(size_t done, size_t total) {
  std::lock_guard lock(mutex_);
  stats_.prefill_done = done;
  stats_.prefill_total = total;
}

void ServerStats::Keep(const experts::StoreStats& experts,
                       const std::vector<experts::NgramStats>& ngrams, experts::PoolSnapshot pool) {
  std::lock_guard lock(mutex_);
  pool_ = std::move(pool);
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

experts::PoolSnapshot ServerStats::pool() const {
  std::lock_guard lock(mutex_);
  return pool_;
}

}  // namespace slotstream::server
