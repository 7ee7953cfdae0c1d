// Belady's optimum, which knows the future: the yardstick of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "experts/policy.h"

namespace slotstream::experts {

// When each entry will be used.
using FutureUses = std::vector<std::vector<uint32_t>>;  // per entry, rising times

// Evicts what is used again last (Belady, IBM Systems Journal 5(2), 1966). An entry that is
// used in a step is not evictable in it, so this has the fewest misses of all policies too when a
// step needs several entries at once.
class OptimalPolicy final : public Policy {
 public:
  // `uses` must outlive the policy.
  OptimalPolicy(uint32_t slots, const FutureUses& uses);
  // Begins the step of that time; times rise.
  void SetTime(uint32_t now) { now_ = now; }
  void Filled(uint32_t slot, uint32_t entry) override;
  void Used(uint32_t slot) override;
  uint32_t ChooseVictim(const std::function<bool(uint32_t)>& evictable) override;
  void Moved(uint32_t from, uint32_t to) override;
  void Resized(uint32_t) override {}

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t NextUse(uint32_t entry) const;

  const FutureUses& uses_;
  uint32_t now_ = 0;
  std::vector<uint32_t> entry_of_, next_use_;  // per slot
  std::set<std::pair<uint32_t, uint32_t>>
      order_;  // (next use, slot) of the slots that hold something
};

}  // namespace slotstream::experts
