// Least recently used first, in one segment or two.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "experts/policy.h"

namespace slotstream::experts {

// How many of a pool's slots to protect when a token needs `token_needs` experts of all layers: two
// fifths, less if probation would otherwise be too small for what one token may miss, for then
// everything would go before the next token asks for it. docs/CACHE.md has the measurements.
inline uint32_t ProtectedSlots(uint32_t slots, uint32_t token_needs) {
  return std::min(slots / 5 * 2, slots - std::min(slots, token_needs));
}

// Segmented LRU (Karedla, Love and Wherry, IEEE Computer 27(3), 1994). A new entry is on probation;
// one used again is protected. Victims are the least recently used on probation. Beyond
// `protected_slots` the least recently used of the protected go back on probation, as its most
// recent. With 0 protected slots this is LRU.
class SegmentedLruPolicy final : public Policy {
 public:
  SegmentedLruPolicy(uint32_t slots, uint32_t protected_slots);
  // Protects ProtectedSlots(slots, token_needs), also when the pool is resized.
  static std::unique_ptr<SegmentedLruPolicy> ForTokens(uint32_t slots, uint32_t token_needs);
  void Filled(uint32_t slot, uint32_t entry) override;
  void Used(uint32_t slot) override;
  uint32_t ChooseVictim(const std::function<bool(uint32_t)>& evictable) override;
  void Moved(uint32_t from, uint32_t to) override;
  void Resized(uint32_t slots) override;

 private:
  // A ring through a head, the most recent entry after it, the least recent before.
  struct Link {
    uint32_t before, after;
  };

  uint32_t probation() const { return static_cast<uint32_t>(links_.size()) - 2; }
  uint32_t protection() const { return static_cast<uint32_t>(links_.size()) - 1; }
  void Unlink(uint32_t slot);
  void LinkFirst(uint32_t head, uint32_t slot);
  void Demote();

  std::vector<Link> links_;  // per slot, then the heads of probation and protection
  std::vector<bool> protected_;
  uint32_t protected_slots_;
  uint32_t protected_count_ = 0;
  std::optional<uint32_t> token_needs_;  // absent: protected_slots_ stays
};

}  // namespace slotstream::experts
