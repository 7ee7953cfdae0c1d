// Replays traces through a pool that only keeps the books: what would another size, another policy
// have hit? Decisions are those of ExpertStore, so that the engine's own policy gives its own
// counts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "experts/expert_trace.h"
#include "experts/slot_pool.h"

namespace slotstream::experts {

enum class PolicyKind { kClock, kLru, kSegmentedLru, kFrequency, kOptimal };
inline constexpr std::array kPolicyKinds = {PolicyKind::kClock, PolicyKind::kLru,
                                            PolicyKind::kSegmentedLru, PolicyKind::kFrequency,
                                            PolicyKind::kOptimal};
// Short lower-case name, e.g. "clock".
std::string_view NameOf(PolicyKind kind);

// As in StoreStats.
struct HitCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t swept = 0;

  uint64_t needs() const { return hits + misses + swept; }
  HitCounts& operator+=(const HitCounts& other);
  bool operator==(const HitCounts&) const = default;
};

struct ReplayResult {
  HitCounts prompt, decode;
  std::vector<HitCounts> decode_by_layer;
  uint64_t evictions = 0;
};

// One visit: what ExpertStore does between Begin and End, without reads.
HitCounts ReplayVisit(SlotPool& pool, const TraceHeader& header, const TraceVisit& visit,
                      std::span<const ExpertNeed> needs);

// The traces one after another through one pool of `slots`, empty at first, as conversations
// through a server. kInvalidArgument for no slots or traces of different headers.
//
// The optimum counts a use where the engine tells its policy of one: everywhere but in the sweeps
// before a prompt's last. No policy has fewer misses where no prompt swept; where one did,
// admissions depend on what the pool holds, and a policy may be luckier.
Result<ReplayResult> Replay(std::span<const Trace> traces, PolicyKind kind, uint32_t slots);

}  // namespace slotstream::experts
