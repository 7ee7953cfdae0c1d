#include "experts/segmented_lru.h"

namespace slotstream::experts {

// A slot outside both rings is a ring of its own, so that unlinking it is always right.
SegmentedLruPolicy::SegmentedLruPolicy(uint32_t slots, uint32_t protected_slots)
    : links_(size_t{slots} + 2), protected_(slots), protected_slots_(protected_slots) {
  for (uint32_t i = 0; i < links_.size(); ++i) links_[i] = {i, i};
}

std::unique_ptr<SegmentedLruPolicy> SegmentedLruPolicy::ForTokens(uint32_t slots,
                                                                  uint32_t token_needs) {
  auto policy = std::make_unique<SegmentedLruPolicy>(slots, ProtectedSlots(slots, token_needs));
  policy->token_needs_ = token_needs;
  return policy;
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
  ++protected_count_;
  Demote();
}

// Puts the oldest of too many protected ones back on probation.
void SegmentedLruPolicy::Demote() {
  while (protected_count_ > protected_slots_) {
    const uint32_t oldest = links_[protection()].before;
    Unlink(oldest);
    LinkFirst(probation(), oldest);
  }
}

void SegmentedLruPolicy::Moved(uint32_t from, uint32_t to) {
  const uint32_t before = links_[from].before;
  const bool was_protected = protected_[from];
  Unlink(from);
  LinkFirst(before, to);
  protected_[to] = was_protected;
  if (was_protected) ++protected_count_;
}

void SegmentedLruPolicy::Resized(uint32_t slots) {
  if (token_needs_) protected_slots_ = ProtectedSlots(slots, *token_needs_);
  Demote();
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
