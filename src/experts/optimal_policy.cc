#include "experts/optimal_policy.h"

#include <algorithm>
#include <utility>

namespace slotstream::experts {

OptimalPolicy::OptimalPolicy(uint32_t slots, const FutureUses& uses)
    : uses_(uses), entry_of_(slots, kNone), next_use_(slots, kNone) {}

uint32_t OptimalPolicy::NextUse(uint32_t entry) const {
  const std::vector<uint32_t>& uses = uses_[entry];
  const auto next = std::ranges::upper_bound(uses, now_);
  return next == uses.end() ? kNone : *next;
}

void OptimalPolicy::Filled(uint32_t slot, uint32_t entry) {
  if (entry_of_[slot] != kNone) order_.erase({next_use_[slot], slot});
  entry_of_[slot] = entry;
  next_use_[slot] = NextUse(entry);
  order_.emplace(next_use_[slot], slot);
}

void OptimalPolicy::Used(uint32_t slot) { Filled(slot, entry_of_[slot]); }

uint32_t OptimalPolicy::ChooseVictim(const std::function<bool(uint32_t)>& evictable) {
  auto last = order_.rbegin();
  while (!evictable(last->second)) ++last;
  const uint32_t slot = last->second;
  order_.erase(std::next(last).base());
  entry_of_[slot] = kNone;
  return slot;
}

void OptimalPolicy::Moved(uint32_t from, uint32_t to) {
  order_.erase({next_use_[from], from});
  next_use_[to] = next_use_[from];
  entry_of_[to] = std::exchange(entry_of_[from], kNone);
  order_.emplace(next_use_[to], to);
}

}  // namespace slotstream::experts
