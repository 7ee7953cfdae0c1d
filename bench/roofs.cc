#include "bench/roofs.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"

namespace slotstream::bench {
namespace {

// Keeps the results of loops that nobody reads.
std::atomic<uint64_t> sink;

// Four 64-byte lines of a stream a step: enough independent loads to keep the line fill buffers
// busy.
constexpr size_t kStep = 256;

#if defined(__x86_64__)
#define SS_WIDE __attribute__((target("avx2")))
#else
#define SS_WIDE
#endif

template <size_t kStreams>
SS_WIDE uint64_t SumWords(const std::byte* data, size_t bytes) {
  typedef uint64_t Lane __attribute__((vector_size(32), aligned(1), may_alias));
  Lane sums[8] = {};
  const size_t part = bytes / kStreams / kStep * kStep;
  for (size_t at = 0; at < part; at += kStep) {
#pragma GCC unroll 4
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const auto* lanes = reinterpret_cast<const Lane*>(data + stream * part + at);
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) sums[j] += lanes[j];
    }
  }
  uint64_t total = 0;
  for (const Lane& sum : sums) total += sum[0] + sum[1] + sum[2] + sum[3];
  return total;
}

}  // namespace

double ReadMemory(const WeightBuffer& weights, size_t bytes, int streams, ThreadPool& threads,
                  size_t& position) {
  const auto count = static_cast<size_t>(threads.threads());
  const size_t unit = kStep * static_cast<size_t>(streams);
  const size_t part = weights.size() / count / unit * unit;
  const size_t share = std::min(bytes / count / unit * unit, part);
  if (position + share > part) position = 0;
  const auto read = streams == 1 ? SumWords<1> : SumWords<4>;
  const uint64_t start = Clock::Steady().NowNanos();
  threads.ParallelFor(count, [&](size_t i) {
    sink.fetch_add(read(weights.data() + i * part + position, share), std::memory_order_relaxed);
  });
  const uint64_t nanos = Clock::Steady().NowNanos() - start;
  position += share;
  // What was really read may be a little less than asked for.
  return static_cast<double>(nanos) * 1e-9 * static_cast<double>(bytes) /
         static_cast<double>(share * count);
}

const Peak* FindPeak(std::string_view instructions, bool integer) {
  for (const Peak& peak : Peaks()) {
    if (peak.instructions == instructions && peak.integer == integer) return &peak;
  }
  return nullptr;
}

double RunPeak(const Peak& peak, uint64_t loops, ThreadPool& threads) {
  const auto count = static_cast<size_t>(threads.threads());
  const uint64_t start = Clock::Steady().NowNanos();
  threads.ParallelFor(count,
                      [&](size_t) { sink.fetch_add(peak.run(loops), std::memory_order_relaxed); });
  return static_cast<double>(Clock::Steady().NowNanos() - start) * 1e-9;
}

}  // namespace slotstream::bench
