#include "experts/replay.h"

#include <algorithm>
#include <utility>

#include "experts/clock_policy.h"
#include "experts/frequency_policy.h"
#include "experts/optimal_policy.h"
#include "experts/segmented_lru.h"

namespace slotstream::experts {
namespace {

bool Sweeps(const TraceHeader& header, const TraceVisit& visit) {
  return visit.rows >= header.sweep_rows;
}

// Times are numbers of visits, counted through all traces.
FutureUses FindUses(std::span<const Trace> traces, const TraceHeader& header) {
  FutureUses uses(size_t{header.layers} * header.experts);
  uint32_t now = 0;
  for (const Trace& trace : traces) {
    for (size_t i = 0; i < trace.visits.size(); ++i, ++now) {
      const TraceVisit& visit = trace.visits[i];
      if (Sweeps(header, visit) && !visit.admit) continue;
      for (const ExpertNeed& need : trace.NeedsOf(i)) {
        uses[size_t{visit.layer} * header.experts + need.expert].push_back(now);
      }
    }
  }
  return uses;
}

// kOptimal apart, which needs the future.
std::unique_ptr<Policy> MakePolicy(PolicyKind kind, uint32_t slots, const TraceHeader& header) {
  switch (kind) {
    case PolicyKind::kLru:
      return std::make_unique<SegmentedLruPolicy>(slots, 0);
    case PolicyKind::kSegmentedLru:
      return std::make_unique<SegmentedLruPolicy>(
          slots, ProtectedSlots(slots, header.layers * header.top_k));
    case PolicyKind::kFrequency:
      return std::make_unique<FrequencyPolicy>(slots, header.layers * header.experts,
                                               HalfLife(slots));
    default:
      return std::make_unique<ClockPolicy>(slots);
  }
}

}  // namespace

std::string_view NameOf(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kClock:
      return "clock";
    case PolicyKind::kLru:
      return "lru";
    case PolicyKind::kSegmentedLru:
      return "slru";
    case PolicyKind::kFrequency:
      return "lrfu";
    case PolicyKind::kOptimal:
      return "optimum";
  }
  return "unknown";
}

HitCounts& HitCounts::operator+=(const HitCounts& other) {
  hits += other.hits;
  misses += other.misses;
  swept += other.swept;
  return *this;
}

HitCounts ReplayVisit(SlotPool& pool, const TraceHeader& header, const TraceVisit& visit,
                      std::span<const ExpertNeed> needs) {
  HitCounts counts;
  std::vector<uint32_t> missing, pinned;
  const bool sweep = Sweeps(header, visit);
  const bool admit = visit.admit || pool.fits_everything();
  for (uint32_t i = 0; i < needs.size(); ++i) {
    const int32_t slot = pool.Find({visit.layer, needs[i].expert});
    if (slot < 0) {
      missing.push_back(i);
      continue;
    }
    ++counts.hits;
    if (!sweep || admit) pool.Use(static_cast<uint32_t>(slot));
    pool.Pin(static_cast<uint32_t>(slot));
    pinned.push_back(static_cast<uint32_t>(slot));
  }
  const auto fill = [&](std::span<const uint32_t> batch) {
    std::vector<ExpertKey> keys;
    for (uint32_t need : batch) keys.push_back({visit.layer, needs[need].expert});
    // There is room: no batch exceeds what is not pinned.
    const std::vector<uint32_t> claimed = pool.Claim(keys).value();
    for (uint32_t slot : claimed) {
      pool.Publish(slot);
      pinned.push_back(slot);
    }
  };
  const auto unpin = [&] {
    for (uint32_t slot : pinned) pool.Unpin(slot);
    pinned.clear();
  };
  if (sweep) {
    counts.swept = missing.size();
    if (admit) {
      fill(ChooseAdmissions(needs, missing, static_cast<uint32_t>(counts.hits), pool.slots(),
                            header.layers));
    }
  } else {
    counts.misses = missing.size();
    for (std::span<const uint32_t> left = missing; !left.empty();) {
      const size_t room = std::min(left.size(), pool.slots() - pinned.size());
      fill(left.first(room));
      left = left.subspan(room);
      if (!left.empty()) unpin();
    }
  }
  unpin();
  return counts;
}

Result<ReplayResult> Replay(std::span<const Trace> traces, PolicyKind kind, uint32_t slots) {
  const TraceHeader header = traces.empty() ? TraceHeader{} : traces[0].header;
  for (const Trace& trace : traces) {
    if (trace.header == header) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "traces of models or passes of different sizes cannot share a pool; replay each by "
                "itself");
  }
  const FutureUses uses = kind == PolicyKind::kOptimal ? FindUses(traces, header) : FutureUses();
  OptimalPolicy* optimal = nullptr;
  std::unique_ptr<Policy> policy;
  if (kind == PolicyKind::kOptimal) {
    auto made = std::make_unique<OptimalPolicy>(slots, uses);
    optimal = made.get();
    policy = std::move(made);
  } else {
    policy = MakePolicy(kind, slots, header);
  }
  SS_ASSIGN_OR_RETURN(SlotPool pool,
                      SlotPool::Create(slots, 0, header.layers, header.experts, std::move(policy)));
  ReplayResult result;
  result.decode_by_layer.resize(header.layers);
  uint32_t now = 0;
  for (const Trace& trace : traces) {
    for (size_t i = 0; i < trace.visits.size(); ++i, ++now) {
      const TraceVisit& visit = trace.visits[i];
      if (optimal != nullptr) optimal->SetTime(now);
      const HitCounts counts = ReplayVisit(pool, header, visit, trace.NeedsOf(i));
      (visit.prompt ? result.prompt : result.decode) += counts;
      if (!visit.prompt) result.decode_by_layer[visit.layer] += counts;
    }
  }
  result.evictions = pool.evictions();
  return result;
}

}  // namespace slotstream::experts
