#include "experts/slot_pool.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace slotstream::experts {

Result<SlotPool> SlotPool::Create(uint32_t slots, size_t record_bytes, uint32_t layers,
                                  uint32_t experts_per_layer, std::unique_ptr<Policy> policy) {
  if (slots == 0) return Fail(ErrorCode::kInvalidArgument, "a slot pool needs at least one slot");
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer memory,
      AlignedBuffer::Allocate(slots * record_bytes,
                              fmt::format("{} expert slots of {} bytes", slots, record_bytes)));
  return SlotPool(std::move(memory), slots, record_bytes, layers, experts_per_layer,
                  std::move(policy));
}

SlotPool::SlotPool(AlignedBuffer memory, uint32_t slots, size_t record_bytes, uint32_t layers,
                   uint32_t experts_per_layer, std::unique_ptr<Policy> policy)
    : memory_(std::move(memory)),
      experts_per_layer_(experts_per_layer),
      policy_(std::move(policy)),
      data_(slots),
      slot_of_(size_t{layers} * experts_per_layer, -1),
      entry_of_(slots, kNone),
      pins_(slots, 0),
      claimed_(slots, false) {
  free_.reserve(slots);
  for (uint32_t slot = slots; slot > 0; --slot) {
    data_[slot - 1] = memory_.data() + (slot - 1) * record_bytes;
    free_.push_back(slot - 1);
  }
}

std::byte* SlotPool::Exchange(uint32_t slot, std::byte* other) {
  assert(claimed_[slot]);
  return std::exchange(data_[slot], other);
}

void SlotPool::Pin(uint32_t slot) {
  assert(entry_of_[slot] != kNone && !claimed_[slot]);
  if (pins_[slot]++ == 0) ++unavailable_;
}

void SlotPool::Unpin(uint32_t slot) {
  assert(pins_[slot] > 0);
  if (--pins_[slot] == 0) --unavailable_;
}

Result<std::vector<uint32_t>> SlotPool::Claim(std::span<const ExpertKey> keys) {
  if (keys.size() > slots() - unavailable_) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("{} expert slots are needed at once, but only {} of {} are free to "
                            "reuse; give the pool more slots",
                            keys.size(), slots() - unavailable_, slots()));
  }
  std::vector<uint32_t> claimed;
  claimed.reserve(keys.size());
  for (const ExpertKey key : keys) {
    uint32_t slot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      slot = policy_->ChooseVictim([this](uint32_t s) { return pins_[s] == 0 && !claimed_[s]; });
      slot_of_[entry_of_[slot]] = -1;
      --held_;
      ++evictions_;
    }
    entry_of_[slot] = Index(key);
    claimed_[slot] = true;
    ++unavailable_;
    policy_->Filled(slot, entry_of_[slot]);
    claimed.push_back(slot);
  }
  return claimed;
}

void SlotPool::Publish(uint32_t slot) {
  const uint32_t entry = entry_of_[slot];
  assert(claimed_[slot] && slot_of_[entry] == -1);
  claimed_[slot] = false;
  slot_of_[entry] = static_cast<int32_t>(slot);
  pins_[slot] = 1;  // unavailable_ counted the claim and now counts the pin
  ++held_;
}

void SlotPool::Abandon(uint32_t slot) {
  assert(claimed_[slot]);
  claimed_[slot] = false;
  entry_of_[slot] = kNone;
  --unavailable_;
  free_.push_back(slot);
}

}  // namespace slotstream::experts
