// Least frequently used first, where a use counts less the older it is.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "experts/policy.h"

namespace slotstream::experts {

// LRFU (Lee et al., IEEE Transactions on Computers 50(12), 2001): the victim is the entry of the
// least score, a score being the sum of 2^(-age / half_life) over the entry's uses. There are few
// enough experts to keep every one's score: one that returns goes on where it left (a ghost).
class FrequencyPolicy final : public Policy {
 public:
  // `half_life` in uses of any entry, above 0; `entries` is the number of them.
  FrequencyPolicy(uint32_t slots, uint32_t entries, double half_life);
  void Filled(uint32_t slot, uint32_t entry) override;
  void Used(uint32_t slot) override;
  uint32_t ChooseVictim(const std::function<bool(uint32_t)>& evictable) override;
  void Moved(uint32_t from, uint32_t to) override;
  void Resized(uint32_t) override {}

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  double half_life_;
  double now_ = 0;  // in half-lives
  // Per entry, log2 of (score now) * 2^now: a number that changes with uses only.
  std::vector<double> score_;
  std::vector<uint32_t> entry_of_;               // per slot
  std::vector<double> key_;                      // per slot: its score in order_
  std::set<std::pair<double, uint32_t>> order_;  // (score, slot) of the slots that hold something
};

// A half-life that suits a pool of so many slots, in uses. Longer ones keep what is past; shorter
// ones come close to LRU. Measured like ProtectedSlots.
inline double HalfLife(uint32_t slots) { return slots; }

}  // namespace slotstream::experts
