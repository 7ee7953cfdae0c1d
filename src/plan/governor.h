// When memory gets tight, what gives way; when it is free again, what comes back.
//
// A pure decision: what was read from the system, the sizes of now, and the time, in; the sizes to
// have, out. The engine applies them between passes (docs/MEMORY.md). No size changes a bit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/plan.h"
#include "plan/system_files.h"

namespace slotstream::plan {

// What the system says at one moment; absent where it says nothing.
struct Pressure {
  std::optional<uint64_t> available = {};  // bytes, of the machine and of its control groups
  std::optional<double> stalled = {};   // PSI "some avg10", percent, the group's or the machine's
  std::optional<uint64_t> events = {};  // times that a control group hit its limit, rising
};

Pressure ReadPressure(const SystemFiles& files);

// Of the caches that can shrink.
struct CacheSizes {
  uint64_t prefix_bytes = 0;  // of the prefix cache
  uint64_t ngram_rows = 0;    // of each n-gram layer's cache
  uint32_t slots = 0;         // of the expert pool
  bool operator==(const CacheSizes&) const = default;
};

// What one of each costs.
struct CacheCosts {
  uint64_t ngram_row_bytes = 0;  // of all n-gram layers
  uint64_t slot_bytes = 0;
};

struct GovernorLimits {
  CacheSizes least;  // what may not be taken
  CacheSizes most;   // what may not be exceeded
  CacheCosts costs;
  // Bytes that should stay available to the rest of the machine. Below them something is given
  // back; things grow only while more than three times as much is free.
  uint64_t reserve = 0;
};

// What a decision remembers for the next.
struct GovernorState {
  uint64_t pressed_at = 0;  // nanoseconds
  uint64_t changed_at = 0;
  uint64_t events = 0;  // as last read
  bool started = false;
};

struct Decision {
  CacheSizes sizes;
  GovernorState state;
  // Why, for the log; empty when nothing changes.
  std::string reason;
};

// `now` in nanoseconds, never falling. Under pressure caches shrink in the order of what they cost
// to rebuild: the prefix cache, the n-gram cache, then the pool. After half a minute without they
// grow back, in the opposite order, a sixteenth of what is missing at a time.
Decision Decide(const GovernorLimits& limits, const GovernorState& state, const Pressure& pressure,
                const CacheSizes& current, uint64_t now);

// What the rest of a machine with `total` bytes should keep free.
uint64_t ReserveOf(uint64_t total);

}  // namespace slotstream::plan
