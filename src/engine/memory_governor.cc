#include "engine/memory_governor.h"

#include <fmt/format.h>

#include <utility>

namespace slotstream::engine {
namespace {

// Reading /proc and the control groups takes about 0.2 ms; a program that allocates as fast as it
// can takes some 2 GB in this time.
constexpr uint64_t kLookNanos = 200'000'000;

}  // namespace

MemoryGovernor::MemoryGovernor(LoadedModel& loaded, const Clock& clock, std::string system_root,
                               std::function<void(std::string_view)> log)
    : loaded_(loaded),
      clock_(clock),
      files_(std::move(system_root)),
      log_(std::move(log)),
      limits_(loaded.governor_limits()) {}

void MemoryGovernor::Step() {
  if (limits_.least == limits_.most) return;
  const uint64_t now = clock_.NowNanos();
  if (now < next_look_) return;
  next_look_ = now + kLookNanos;
  const plan::CacheSizes before = loaded_.cache_sizes();
  const plan::Decision decision =
      plan::Decide(limits_, state_, plan::ReadPressure(files_), before, now);
  state_ = decision.state;
  if (decision.sizes == before) return;
  const Status resized = loaded_.Resize(decision.sizes);
  if (!log_) return;
  if (!resized) {
    log_(fmt::format("memory: {}", resized.error().message));
    return;
  }
  const plan::CacheSizes after = loaded_.cache_sizes();
  std::string line = fmt::format("memory: {}: {} expert slots (were {})", decision.reason,
                                 after.slots, before.slots);
  if (after.ngram_rows != before.ngram_rows) {
    line += fmt::format(", {} n-gram rows (were {})", after.ngram_rows, before.ngram_rows);
  }
  log_(line);
}

}  // namespace slotstream::engine
