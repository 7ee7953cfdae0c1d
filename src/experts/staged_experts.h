// Experts beside the pool: frames of memory for records that a sweep needs once, or that are read
// before it is certain that they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "experts/slot_pool.h"

namespace slotstream::experts {

// A frame is free, or being read for one expert, or holds it. Not thread-safe, but the bytes of a
// frame may be read by any thread.
class StagedExperts {
 public:
  // kResourceLimit when the memory cannot be had.
  static Result<StagedExperts> Create(uint32_t frames, size_t record_bytes, uint32_t layers,
                                      uint32_t experts_per_layer);

  uint32_t frames() const { return static_cast<uint32_t>(frames_.size()); }
  bool any_free() const { return !free_.empty(); }
  uint64_t bytes() const { return memory_.size(); }

  // The frame of `key`, being read or holding it.
  std::optional<uint32_t> Find(ExpertKey key) const;
  // A free frame, from now on being read for `key`, which no frame has; there must be one.
  uint32_t Take(ExpertKey key);
  void Landed(uint32_t frame) { frames_[frame].landed = true; }
  void Release(uint32_t frame);

  bool taken(uint32_t frame) const { return frames_[frame].taken; }
  bool landed(uint32_t frame) const { return frames_[frame].landed; }
  ExpertKey key(uint32_t frame) const { return frames_[frame].key; }
  std::byte* record(uint32_t frame) const { return frames_[frame].record; }

  // Gives the frame's memory away for `other` of the same size, without copying a byte.
  std::byte* Exchange(uint32_t frame, std::byte* other);

 private:
  struct Frame {
    ExpertKey key;
    std::byte* record = nullptr;
    bool taken = false;
    bool landed = false;
  };

  StagedExperts(AlignedBuffer memory, uint32_t frames, size_t record_bytes, uint32_t layers,
                uint32_t experts_per_layer);

  size_t Index(ExpertKey key) const { return size_t{key.layer} * experts_per_layer_ + key.expert; }

  AlignedBuffer memory_;
  uint32_t experts_per_layer_;
  std::vector<Frame> frames_;
  std::vector<uint32_t> free_;
  std::vector<int32_t> frame_of_;  // per expert, -1 if it has none
};

}  // namespace slotstream::experts
