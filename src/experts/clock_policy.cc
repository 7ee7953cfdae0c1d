#include "experts/clock_policy.h"

namespace slotstream::experts {

uint32_t ClockPolicy::ChooseVictim(const std::function<bool(uint32_t)>& evictable) {
  for (;;) {
    const uint32_t slot = hand_;
    hand_ = hand_ + 1 == slots_ ? 0 : hand_ + 1;
    if (!evictable(slot)) continue;
    if (!used_[slot]) return slot;
    used_[slot] = false;
  }
}

void ClockPolicy::Resized(uint32_t slots) {
  slots_ = slots;
  if (hand_ >= slots) hand_ = 0;
}

}  // namespace slotstream::experts
