#include "plan/governor.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/memory_facts.h"

namespace slotstream::plan {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
// What was given back shows in the system's figures within this time; PSI's average takes ten.
constexpr uint64_t kShrinkSeconds = 1;
constexpr uint64_t kStallSeconds = 5;
// Pressure comes in waves; growing into the next one would cost the reads twice.
constexpr uint64_t kQuietSeconds = 30;
constexpr uint64_t kGrowSeconds = 2;
// Tasks that wait for memory a tenth of the time make a machine feel slow.
constexpr double kStalledPercent = 10;
constexpr double kBadlyStalledPercent = 40;
// Of what the caches hold, where only stalls or events speak: enough to be felt, little enough to
// do it again if it did not help.
constexpr uint64_t kShareDivisor = 16;
constexpr uint64_t kBadShareDivisor = 4;
constexpr uint64_t kGrowDivisor = 16;

uint64_t BytesOf(const CacheSizes& sizes, const CacheCosts& costs) {
  return sizes.prefix_bytes + sizes.ngram_rows * costs.ngram_row_bytes +
         sizes.slots * costs.slot_bytes;
}

// Lowers `size`, down to `least`, by units of `unit` bytes until `bytes` are saved.
template <typename Size>
void Shed(uint64_t& bytes, uint64_t unit, Size least, Size& size) {
  if (bytes == 0 || unit == 0 || size <= least) return;
  const uint64_t wanted = bytes / unit + (bytes % unit != 0);
  const uint64_t given = std::min<uint64_t>(wanted, size - least);
  size -= static_cast<Size>(given);
  bytes -= std::min(bytes, given * unit);
}

// Raises `size`, up to `most`, by whole units within `bytes`.
template <typename Size>
void Grow(uint64_t& bytes, uint64_t unit, Size most, Size& size) {
  if (unit == 0 || size >= most) return;
  const uint64_t taken = std::min<uint64_t>(bytes / unit, most - size);
  size += static_cast<Size>(taken);
  bytes -= taken * unit;
}

CacheSizes Shrunk(const GovernorLimits& limits, CacheSizes sizes, uint64_t bytes) {
  Shed(bytes, uint64_t{1}, limits.least.prefix_bytes, sizes.prefix_bytes);
  Shed(bytes, limits.costs.ngram_row_bytes, limits.least.ngram_rows, sizes.ngram_rows);
  Shed(bytes, limits.costs.slot_bytes, limits.least.slots, sizes.slots);
  return sizes;
}

CacheSizes Grown(const GovernorLimits& limits, CacheSizes sizes, uint64_t bytes) {
  Grow(bytes, limits.costs.slot_bytes, limits.most.slots, sizes.slots);
  Grow(bytes, limits.costs.ngram_row_bytes, limits.most.ngram_rows, sizes.ngram_rows);
  Grow(bytes, uint64_t{1}, limits.most.prefix_bytes, sizes.prefix_bytes);
  return sizes;
}

struct Need {
  uint64_t bytes = 0;  // to give back; 0: no pressure
  uint64_t wait = 0;   // nanoseconds since the last change before it is acted on
  std::string reason;
};

Need NeedOf(const GovernorLimits& limits, const GovernorState& state, const Pressure& pressure,
            uint64_t held) {
  Need need;
  if (pressure.available && *pressure.available < limits.reserve) {
    // Back to twice the reserve, so that the next allocation elsewhere does not shrink us again.
    need = {2 * limits.reserve - *pressure.available, kShrinkSeconds * kSecond,
            fmt::format("{} of memory are left", FormatBytes(*pressure.available))};
  }
  const auto at_least = [&](uint64_t bytes, uint64_t wait, std::string reason) {
    if (need.bytes >= bytes) return;
    if (need.bytes > 0) wait = std::min(wait, need.wait);
    need = {bytes, wait, std::move(reason)};
  };
  const bool room = pressure.available && *pressure.available >= 3 * limits.reserve;
  if (pressure.stalled && *pressure.stalled >= kStalledPercent && !room) {
    const bool badly = *pressure.stalled >= kBadlyStalledPercent;
    at_least(held / (badly ? kBadShareDivisor : kShareDivisor), kStallSeconds * kSecond,
             fmt::format("programs wait for memory {:.0f} % of the time", *pressure.stalled));
  }
  // File pages reach a group's limit too, and go when they must; it counts where little else is
  // left.
  const bool hit = state.started && pressure.events && *pressure.events > state.events;
  if (hit && pressure.available && *pressure.available < 2 * limits.reserve) {
    at_least(held / kShareDivisor, kShrinkSeconds * kSecond, "the control group hit its limit");
  }
  return need;
}

}  // namespace

Decision Decide(const GovernorLimits& limits, const GovernorState& state, const Pressure& pressure,
                const CacheSizes& current, uint64_t now) {
  Decision decision{.sizes = current, .state = state, .reason = {}};
  GovernorState& next = decision.state;
  const Need need = NeedOf(limits, state, pressure, BytesOf(current, limits.costs));
  next.events = pressure.events.value_or(state.events);
  if (!state.started) {
    // A start counts as a change: what it brought with it must settle first.
    next.started = true;
    next.changed_at = next.pressed_at = now;
  }
  const uint64_t since_change = now - next.changed_at;
  if (need.bytes > 0) {
    next.pressed_at = now;
    // Before the first change there is nothing to wait for.
    if (state.started && since_change < need.wait) return decision;
    decision.sizes = Shrunk(limits, current, need.bytes);
    decision.reason = need.reason;
  } else if (pressure.available && *pressure.available > 3 * limits.reserve &&
             now - next.pressed_at >= kQuietSeconds * kSecond &&
             since_change >= kGrowSeconds * kSecond) {
    const uint64_t spare = *pressure.available - 3 * limits.reserve;
    const uint64_t held = BytesOf(current, limits.costs), most = BytesOf(limits.most, limits.costs);
    const uint64_t missing = most > held ? most - held : 0;
    // A step is at least a slot, or the last ones would never come.
    const uint64_t step = std::max(missing / kGrowDivisor, limits.costs.slot_bytes);
    decision.sizes = Grown(limits, current, std::min(spare, step));
    decision.reason = fmt::format("{} of memory are free", FormatBytes(*pressure.available));
  }
  if (decision.sizes == current) {
    decision.reason.clear();
  } else {
    next.changed_at = now;
  }
  return decision;
}

Pressure ReadPressure(const SystemFiles& files) {
  const MemoryFacts memory = ReadMemoryFacts(files);
  Pressure pressure;
  if (memory.available != kUnlimited) pressure.available = memory.available;
  pressure.stalled = memory.group.stalled ? memory.group.stalled : memory.stalled;
  pressure.events = memory.group.events;
  return pressure;
}

uint64_t ReserveOf(uint64_t total) {
  // A 32nd: 512 MB of 16 GB, what a desktop needs to stay quick; 8 MB of a small container.
  return std::clamp<uint64_t>(total / 32, 8'000'000, 1'000'000'000);
}

}  // namespace slotstream::plan
