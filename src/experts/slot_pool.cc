#include "experts/slot_pool.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace slotstream::experts {

Result<SlotPool> SlotPool::Create(uint32_t slots, size_t record_bytes, uint32_t layers,
                                  uint32_t experts_per_layer) {
  if (slots == 0) return Fail(ErrorCode::kInvalidArgument, "a slot pool needs at least one slot");
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer memory,
      AlignedBuffer::Allocate(slots * record_bytes,
                              fmt::format("{} expert slots of {} bytes", slots, record_bytes)));
  return SlotPool(std::move(memory), slots, record_bytes, layers, experts_per_layer);
}

SlotPool::SlotPool(AlignedBuffer memory, uint32_t slots, size_t record_bytes, uint32_t layers,
                   uint32_t experts_per_layer)
    : memory_(std::move(memory)),
      record_bytes_(record_bytes),
      experts_per_layer_(experts_per_layer),
      policy_(std::make_unique<ClockPolicy>(slots)),
      slot_of_(size_t{layers} * experts_per_layer, -1),
      entry_of_(slots, kNone),
      pins_(slots, 0),
      claimed_(slots, false) {
  free_.reserve(slots);
  for (uint32_t slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
}

void SlotPool::Pin(uint32_t slot) {
  assert(entry_of_[slot] != kNone);
  if (pins_[slot]++ == 0) ++unavailable_;
}

void SlotPool::Unpin(uint32_t slot) {
  assert(pins_[slot] > 0);
  if (--pins_[slot] == 0) --unavailable_;
}

Result<std::vector<uint32_t>> SlotPool::Claim(uint32_t count) {
  if (count > slots() - unavailable_) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("{} expert slots are needed at once, but only {} of {} are free to "
                            "reuse; give the pool more slots",
                            count, slots() - unavailable_, slots()));
  }
  std::vector<uint32_t> claimed;
  claimed.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t slot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      slot = policy_->ChooseVictim([this](uint32_t s) { return pins_[s] == 0 && !claimed_[s]; });
      slot_of_[std::exchange(entry_of_[slot], kNone)] = -1;
      --held_;
      ++evictions_;
    }
    claimed_[slot] = true;
    ++unavailable_;
    claimed.push_back(slot);
  }
  return claimed;
}

void SlotPool::Publish(uint32_t slot, ExpertKey key) {
  const size_t index = Index(key);
  assert(claimed_[slot] && slot_of_[index] == -1);
  claimed_[slot] = false;
  entry_of_[slot] = static_cast<uint32_t>(index);
  slot_of_[index] = static_cast<int32_t>(slot);
  pins_[slot] = 1;  // unavailable_ counted the claim and now counts the pin
  ++held_;
  policy_->Filled(slot);
}

void SlotPool::Abandon(uint32_t slot) {
  assert(claimed_[slot]);
  claimed_[slot] = false;
  --unavailable_;
  free_.push_back(slot);
}

}  // namespace slotstream::experts
