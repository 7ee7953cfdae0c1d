#include "engine/memory_governor.h"

#include <fmt/format.h>

#include <utility>

namespace slotstream::engine {
namespace {

// Reading /proc and the control groups takes about 0.2 ms; a program that allocates as fast as it
// can takes some 2 GB in this time.
constexpr uint64_t kLookNanos = 200'000'000;

}  // namespace

MemoryGovernor::MemoryGovernor(LoadedModel& loaded, PrefixReuse& prefixes, const Clock& clock,
                               std::string system_root, std::function<void(std::string_view)> log)
    : loaded_(loaded),
      prefixes_(prefixes),
      clock_(clock),
      files_(std::move(system_root)),
      log_(std::move(log)),
      limits_(loaded.governor_limits()) {
  limits_.most.prefix_bytes = prefixes.budget();
  limits_.least.prefix_bytes = loaded.plan().fixed ? prefixes.budget() : 0;
}

void MemoryGovernor::Step() {
  if (limits_.least == limits_.most) return;
  const uint64_t now = clock_.NowNanos();
  if (now < next_look_) return;
  next_look_ = now + kLookNanos;
  plan::CacheSizes before = loaded_.cache_sizes();
  before.prefix_bytes = prefixes_.budget();
  const plan::Pressure pressure = plan::ReadPressure(files_);
  plan::Decision decision = plan::Decide(limits_, state_, pressure, before, now);
  if (decision.sizes.prefix_bytes < before.prefix_bytes) {
    // Only what it holds can be given back.
    before.prefix_bytes = prefixes_.held();
    decision = plan::Decide(limits_, state_, pressure, before, now);
  }
  state_ = decision.state;
  if (decision.sizes == before) return;
  const uint64_t prefix_bytes = prefixes_.budget();
  if (decision.sizes.prefix_bytes != prefix_bytes) {
    prefixes_.SetBudget(decision.sizes.prefix_bytes);
  }
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
  if (prefixes_.budget() != prefix_bytes) {
    line += fmt::format(", {} for the prefix cache (were {})",
                        plan::FormatBytes(prefixes_.budget()), plan::FormatBytes(prefix_bytes));
  }
  log_(line);
}

}  // namespace slotstream::engine
