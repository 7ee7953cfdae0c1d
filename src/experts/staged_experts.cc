#include "experts/staged_experts.h"

#include <cassert>
#include <utility>

namespace slotstream::experts {

Result<StagedExperts> StagedExperts::Create(uint32_t frames, size_t record_bytes, uint32_t layers,
                                            uint32_t experts_per_layer) {
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(frames * record_bytes, "the staging of experts"));
  return StagedExperts(std::move(memory), frames, record_bytes, layers, experts_per_layer);
}

StagedExperts::StagedExperts(AlignedBuffer memory, uint32_t frames, size_t record_bytes,
                             uint32_t layers, uint32_t experts_per_layer)
    : memory_(std::move(memory)),
      experts_per_layer_(experts_per_layer),
      frames_(frames),
      frame_of_(size_t{layers} * experts_per_layer, -1) {
  for (uint32_t frame = frames; frame > 0; --frame) {
    frames_[frame - 1].record = memory_.data() + (frame - 1) * record_bytes;
    free_.push_back(frame - 1);
  }
}

std::optional<uint32_t> StagedExperts::Find(ExpertKey key) const {
  const int32_t frame = frame_of_[Index(key)];
  return frame < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(frame));
}

uint32_t StagedExperts::Take(ExpertKey key) {
  assert(!free_.empty() && frame_of_[Index(key)] < 0);
  const uint32_t frame = free_.back();
  free_.pop_back();
  frames_[frame].key = key;
  frames_[frame].taken = true;
  frames_[frame].landed = false;
  frame_of_[Index(key)] = static_cast<int32_t>(frame);
  return frame;
}

void StagedExperts::Release(uint32_t frame) {
  assert(frames_[frame].taken);
  frame_of_[Index(frames_[frame].key)] = -1;
  frames_[frame].taken = false;
  frames_[frame].landed = false;
  free_.push_back(frame);
}

std::byte* StagedExperts::Exchange(uint32_t frame, std::byte* other) {
  return std::exchange(frames_[frame].record, other);
}

}  // namespace slotstream::experts
