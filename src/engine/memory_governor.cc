#include "engine/memory_governor.h"

#include <fmt/format.h>

#include <utility>

namespace slotstream::engine {
namespace {

// Reading /proc and the control groups takes about 0.2 ms; a program that allocates as fast as it
// can takes some 2 GB in this time.
constexpr uint64_t kLookNanos = 200'000'000;
// A pool grows back in dozens of steps, two seconds apart.
constexpr uint64_t kTellGrowthNanos = 60'000'000'000;

bool Shrank(const plan::CacheSizes& from, const plan::CacheSizes& to) {
  return to.slots < from.slots || to.ngram_rows < from.ngram_rows ||
         to.prefix_bytes < from.prefix_bytes;
}

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
  told_ = Sizes();
}

plan::CacheSizes MemoryGovernor::Sizes() const {
  plan::CacheSizes sizes = loaded_.cache_sizes();
  sizes.prefix_bytes = prefixes_.budget();
  return sizes;
}

void MemoryGovernor::Step() {
  if (limits_.least == limits_.most) return;
  const uint64_t now = clock_.NowNanos();
  if (now < next_look_) return;
  next_look_ = now + kLookNanos;
  const plan::CacheSizes held = Sizes();
  const plan::Pressure pressure = plan::ReadPressure(files_);
  plan::CacheSizes before = held;
  plan::Decision decision = plan::Decide(limits_, state_, pressure, before, now);
  if (decision.sizes.prefix_bytes < before.prefix_bytes) {
    // Only what it holds can be given back.
    before.prefix_bytes = prefixes_.held();
    decision = plan::Decide(limits_, state_, pressure, before, now);
  }
  state_ = decision.state;
  if (decision.sizes != before) {
    // What grew until now has another reason than what shrinks.
    if (told_ != held && Shrank(held, decision.sizes)) Tell(held, now);
    reason_ = decision.reason;
    prefixes_.SetBudget(decision.sizes.prefix_bytes);
    if (const Status resized = loaded_.Resize(decision.sizes); !resized && log_) {
      log_(fmt::format("memory: {}", resized.error().message));
    }
  }
  const plan::CacheSizes sizes = Sizes();
  if (sizes == told_) return;
  if (Shrank(held, sizes) || sizes == limits_.most || now - told_at_ >= kTellGrowthNanos) {
    Tell(sizes, now);
  }
}

void MemoryGovernor::Tell(const plan::CacheSizes& sizes, uint64_t now) {
  std::string parts;
  const auto add = [&](const auto& is, const auto& was, std::string_view what) {
    if (is == was) return;
    parts += fmt::format("{}{} {} (were {})", parts.empty() ? "" : ", ", is, what, was);
  };
  add(sizes.slots, told_.slots, "expert slots");
  add(sizes.ngram_rows, told_.ngram_rows, "n-gram rows");
  add(plan::FormatBytes(sizes.prefix_bytes), plan::FormatBytes(told_.prefix_bytes),
      "for the prefix cache");
  told_at_ = now;
  told_ = sizes;
  if (log_ && !parts.empty()) log_(fmt::format("memory: {}: {}", reason_, parts));
}

}  // namespace slotstream::engine
