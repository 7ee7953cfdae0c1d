#include "experts/segmented_lru.h"

namespace slotstream::experts {

// A slot outside both rings is a ring of its own, so that unlinking it is always right.
SegmentedLruPolicy::SegmentedLruPolicy(uint32_t slots, uint32_t protected_slots)
    : links_(size_t{slots} + 2), protected_(slots), protected_slots_(protected_slots) {
  for (uint32_t i = 0; i < links_.size(); ++i) links_[i] = {i, i};
}

void SegmentedLruPolicy::Unlink(uint32_t slot) {
  const Link link = links_[slot];
  links_[link.before].after = link.after;
  links_[link.after].before = link.before;
  links_[slot] = {slot, slot};
  if (protected_[slot]) --protected_count_;
  protected_[slot] = false;
}

void SegmentedLruPolicy::LinkFirst(uint32_t head, uint32_t slot) {
  const uint32_t after = links_[head].after;
  links_[slot] = {head, after};
  links_[after].before = slot;
  links_[head].after = slot;
}

void SegmentedLruPolicy::Filled(uint32_t slot, uint32_t) {
  Unlink(slot);
  LinkFirst(probation(), slot);
}

void SegmentedLruPolicy::Used(uint32_t slot) {
  Unlink(slot);
  LinkFirst(protection(), slot);
  protected_[slot] = true;
  if (++protected_count_ <= protected_slots_) return;
  const uint32_t oldest = links_[protection()].before;
  Unlink(oldest);
  LinkFirst(probation(), oldest);
}

uint32_t SegmentedLruPolicy::ChooseVictim(const std::function<bool(uint32_t)>& evictable) {
  for (uint32_t head : {probation(), protection()}) {
    for (uint32_t slot = links_[head].before; slot != head; slot = links_[slot].before) {
      if (!evictable(slot)) continue;
      Unlink(slot);
      return slot;
    }
  }
  return 0;  // not reached: the caller knows that a slot is evictable
}

}  // namespace slotstream::experts
