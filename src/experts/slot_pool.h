// The pool of slots that all layers share: which expert lies where, and who holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "experts/policy.h"

namespace slotstream::experts {

// Names a routed expert; layers count as in checkpoint::ExpertFormat.
struct ExpertKey {
  uint32_t layer = 0;
  uint32_t expert = 0;
  bool operator==(const ExpertKey&) const = default;
};

// Slots are free, or claimed (being filled, holding nothing), or hold one expert. A held slot can
// be pinned, any number of times; a pinned or claimed slot is never evicted. Not thread-safe, but a
// pinned slot's bytes may be read by any thread.
class SlotPool {
 public:
  // `record_bytes` per slot (a multiple of kPageSize; 0 for a pool that only keeps the books).
  // `most_slots` is how far Resize may go; less than `slots`, e.g. 0, means `slots`. `policy` is
  // for that many slots, its entries are Index() numbers. kInvalidArgument for no slots,
  // kResourceLimit when the memory cannot be had.
  static Result<SlotPool> Create(uint32_t slots, size_t record_bytes, uint32_t layers,
                                 uint32_t experts_per_layer, std::unique_ptr<Policy> policy,
                                 uint32_t most_slots = 0);

  uint32_t slots() const { return slots_; }
  uint32_t most_slots() const { return static_cast<uint32_t>(pins_.size()); }
  uint32_t held() const { return held_; }
  uint64_t evictions() const { return evictions_; }
  // True when every expert of every layer is in the pool, so that nothing will ever be read.
  bool holds_everything() const { return held_ == slot_of_.size(); }
  // True when there is a slot for every expert, so that nothing is ever evicted.
  bool fits_everything() const { return slots_ >= slot_of_.size(); }

  // The slot that holds `key`, or -1. Finding is not using.
  int32_t Find(ExpertKey key) const { return slot_of_[Index(key)]; }
  // Tells the policy that the slot's entry was used.
  void Use(uint32_t slot) { policy_->Used(slot); }
  std::byte* data(uint32_t slot) { return data_[slot]; }
  const std::byte* data(uint32_t slot) const { return data_[slot]; }
  // Gives the memory of a claimed slot away for `other` of the same size, which holds what the slot
  // was claimed for: a record that was read elsewhere comes into the pool without being copied.
  std::byte* Exchange(uint32_t slot, std::byte* other);

  void Pin(uint32_t slot);
  void Unpin(uint32_t slot);

  // Claims a slot for each of `keys`, which no slot holds or is claimed for, evicting as the policy
  // says. kResourceLimit, with nothing changed, when fewer are neither pinned nor claimed. Victims
  // depend on the order of calls and keys alone, not on when reads are done.
  Result<std::vector<uint32_t>> Claim(std::span<const ExpertKey> keys);
  // The claimed slot now holds what it was claimed for; it is pinned once.
  void Publish(uint32_t slot);
  // The claimed slot is free again.
  void Abandon(uint32_t slot);

  // Makes the pool `slots` large. What it has less goes as the policy says, and its memory back to
  // the system; what stays may move to another slot. New slots take memory when they are filled.
  // All slots must lie in the pool's own memory. kInvalidArgument for no slots or more than
  // most_slots(), kInternal while a slot is pinned or claimed; nothing has changed then.
  Status Resize(uint32_t slots);
  // Whether `memory` is a part of the pool's own; Exchange mixes them up.
  bool Owns(const std::byte* memory) const {
    return memory >= memory_.data() && memory < memory_.data() + memory_.size();
  }
  // Moves what the slot holds to `memory`; returns the memory that it had.
  std::byte* Rehouse(uint32_t slot, std::byte* memory);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  SlotPool(AlignedBuffer memory, uint32_t slots, uint32_t most_slots, size_t record_bytes,
           uint32_t layers, uint32_t experts_per_layer, std::unique_ptr<Policy> policy);

  std::byte* Home(uint32_t slot) { return memory_.data() + slot * record_bytes_; }
  uint32_t Evict();
  void Compact(uint32_t slots);
  void Move(uint32_t from, uint32_t to);

  uint32_t Index(ExpertKey key) const { return key.layer * experts_per_layer_ + key.expert; }

  AlignedBuffer memory_;
  size_t record_bytes_;
  uint32_t slots_;
  uint32_t experts_per_layer_;
  std::unique_ptr<Policy> policy_;
  std::vector<std::byte*> data_;    // per slot
  std::vector<int32_t> slot_of_;    // per expert, -1 if not held
  std::vector<uint32_t> entry_of_;  // per slot: what it holds or is claimed for, or kNone
  std::vector<uint32_t> pins_;      // per slot
  std::vector<bool> claimed_;       // per slot
  std::vector<uint32_t> free_;
  uint32_t held_ = 0;
  uint32_t unavailable_ = 0;  // pinned or claimed slots
  uint64_t evictions_ = 0;
};

}  // namespace slotstream::experts
