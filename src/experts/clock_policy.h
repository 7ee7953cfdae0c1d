// Second chance: nearly LRU for one bit a slot.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experts/policy.h"

namespace slotstream::experts {

// CLOCK, or second chance (Corbato 1968): a hand goes round; a slot used since the hand last
// passed is spared once.
class ClockPolicy final : public Policy {
 public:
  explicit ClockPolicy(uint32_t slots) : used_(slots) {}
  void Filled(uint32_t slot, uint32_t) override { used_[slot] = true; }
  void Used(uint32_t slot) override { used_[slot] = true; }
  uint32_t ChooseVictim(const std::function<bool(uint32_t)>& evictable) override;

 private:
  std::vector<bool> used_;
  uint32_t hand_ = 0;
};

}  // namespace slotstream::experts
