#include "experts/slot_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/release_pages.h"

namespace slotstream::experts {

Result<SlotPool> SlotPool::Create(uint32_t slots, size_t record_bytes, uint32_t layers,
                                  uint32_t experts_per_layer, std::unique_ptr<Policy> policy,
                                  uint32_t most_slots) {
  most_slots = std::max(slots, most_slots);
  if (slots == 0) return Fail(ErrorCode::kInvalidArgument, "a slot pool needs at least one slot");
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer memory,
      AlignedBuffer::Allocate(most_slots * record_bytes, fmt::format("{} expert slots of {} bytes",
                                                                     most_slots, record_bytes)));
  return SlotPool(std::move(memory), slots, most_slots, record_bytes, layers, experts_per_layer,
                  std::move(policy));
}

SlotPool::SlotPool(AlignedBuffer memory, uint32_t slots, uint32_t most_slots, size_t record_bytes,
                   uint32_t layers, uint32_t experts_per_layer, std::unique_ptr<Policy> policy)
    : memory_(std::move(memory)),
      record_bytes_(record_bytes),
      slots_(slots),
      experts_per_layer_(experts_per_layer),
      policy_(std::move(policy)),
      data_(most_slots),
      slot_of_(size_t{layers} * experts_per_layer, -1),
      entry_of_(most_slots, kNone),
      pins_(most_slots, 0),
      claimed_(most_slots, false) {
  free_.reserve(most_slots);
  policy_->Resized(slots);
  for (uint32_t slot = 0; slot < most_slots; ++slot) data_[slot] = Home(slot);
  for (uint32_t slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
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
      slot = Evict();
    }
    entry_of_[slot] = Index(key);
    claimed_[slot] = true;
    ++unavailable_;
    policy_->Filled(slot, entry_of_[slot]);
    claimed.push_back(slot);
  }
  return claimed;
}

// The slot of what the policy gives up.
uint32_t SlotPool::Evict() {
  const uint32_t slot = policy_->ChooseVictim(
      [this](uint32_t s) { return entry_of_[s] != kNone && pins_[s] == 0 && !claimed_[s]; });
  slot_of_[entry_of_[slot]] = -1;
  entry_of_[slot] = kNone;
  --held_;
  ++evictions_;
  return slot;
}

void SlotPool::Move(uint32_t from, uint32_t to) {
  std::swap(data_[to], data_[from]);
  entry_of_[to] = std::exchange(entry_of_[from], kNone);
  slot_of_[entry_of_[to]] = static_cast<int32_t>(to);
  policy_->Moved(from, to);
}

// Puts the first `slots` slots into the front of the memory and gives the rest back: one stretch,
// not holes, since huge pages are given back whole or not at all.
void SlotPool::Compact(uint32_t slots) {
  const std::byte* end = Home(slots);
  uint32_t other = slots;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if (data_[slot] < end) continue;
    while (data_[other] >= end) ++other;
    if (entry_of_[slot] != kNone) std::memcpy(data_[other], data_[slot], record_bytes_);
    std::swap(data_[slot], data_[other]);
  }
  for (uint32_t slot = slots; slot < slots_; ++slot) data_[slot] = Home(slot);
  ReleasePages(memory_.span().subspan(slots * record_bytes_, (slots_ - slots) * record_bytes_));
}

std::byte* SlotPool::Rehouse(uint32_t slot, std::byte* memory) {
  if (entry_of_[slot] != kNone) std::memcpy(memory, data_[slot], record_bytes_);
  return std::exchange(data_[slot], memory);
}

Status SlotPool::Resize(uint32_t slots) {
  if (slots == 0 || slots > most_slots()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a pool of 1 to {} slots cannot have {}", most_slots(), slots));
  }
  if (unavailable_ > 0) {
    return Fail(ErrorCode::kInternal, "a pool is resized while its slots are in use");
  }
  while (held_ > slots) Evict();
  free_.clear();
  for (uint32_t slot = slots; slot > 0; --slot) {
    if (entry_of_[slot - 1] == kNone) free_.push_back(slot - 1);
  }
  for (uint32_t slot = slots; slot < slots_; ++slot) {
    if (entry_of_[slot] == kNone) continue;
    Move(slot, free_.back());
    free_.pop_back();
  }
  if (slots < slots_ && record_bytes_ > 0) Compact(slots);
  slots_ = slots;
  policy_->Resized(slots);
  return {};
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
