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
  explicit ClockPolicy(uint32_t slots) : used_(slots), slots_(slots) {}
  void Filled(uint32_t slot, uint32_t) override { used_[slot] = true; }
  void Used(uint32_t slot) override { used_[slot] = true; }
  uint32_t ChooseVictim(const std::function<bool(uint32_t)>& evictable) override;
  void Moved(uint32_t from, uint32_t to) override { used_[to] = used_[from]; }
  void Resized(uint32_t slots) override;

 private:
  std::vector<bool> used_;
  uint32_t slots_;
  uint32_t hand_ = 0;
};

}  // namespace slotstream::experts
