// The stacks of a grammar's machine: each frame is made once and names the one below it, so equal
// stacks are equal numbers, and a copy of a stack is a copy of a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace slotstream::generate {

using FrameId = uint32_t;
// Below all others: what the root stands on. Alone it means that everything is complete.
inline constexpr FrameId kBottom = 0;

struct Frame {
  FrameId below = kBottom;
  uint32_t node = 0;
  uint8_t phase = 0;
  uint8_t depth = 0;           // objects and lists up to here
  uint32_t x = 0, y = 0;       // by kind of node, see machine_run.h
  uint32_t seen = 0;           // the set of an object's members that are there, see BitsWith
  uint64_t count = 0, at = 0;  // likewise
  bool operator==(const Frame&) const = default;
};

struct FrameHash {
  size_t operator()(const Frame& frame) const {
    uint64_t hash = uint64_t{frame.below} << 32 | frame.node;
    for (uint64_t part :
         {uint64_t{frame.phase} << 8 | frame.depth, uint64_t{frame.x} << 32 | frame.y,
          uint64_t{frame.seen}, frame.count, frame.at}) {
      hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15 + part;  // the golden ratio's bits
    }
    return static_cast<size_t>(hash ^ hash >> 29);
  }
};

// Frames stay until Clear. One thread.
class FrameStore {
 public:
  FrameStore() { Clear(); }
  FrameStore(FrameStore&&) = default;
  FrameStore& operator=(FrameStore&&) = default;
  FrameId Intern(const Frame& frame);
  const Frame& at(FrameId id) const { return frames_[id]; }
  size_t bytes() const;  // about
  void Clear();
  // The stack `id` in another store; `copied` has what is there already.
  FrameId CopyTo(FrameStore& other, FrameId id, std::unordered_map<FrameId, FrameId>& copied) const;
  // A frame of this store alone, without what it stands on.
  FrameId CopyAlone(FrameStore& other, Frame frame) const;

  // Sets of numbers as bits; each is kept once, and 0 is empty.
  const std::vector<uint64_t>& bits(uint32_t id) const { return *bits_[id]; }
  uint32_t BitsWith(uint32_t id, size_t number);

  // Sets of frames: after Begin each frame is new once.
  void BeginSet() { ++set_; }
  bool New(FrameId id);

 private:
  uint32_t InternBits(std::vector<uint64_t> bits);

  std::vector<Frame> frames_;
  std::vector<uint32_t> marks_;  // by id: the set that it was last in
  uint32_t set_ = 0;
  std::unordered_map<Frame, FrameId, FrameHash> ids_;
  std::map<std::vector<uint64_t>, uint32_t> bit_ids_;
  std::vector<const std::vector<uint64_t>*> bits_;  // keys of bit_ids_
  size_t bits_bytes_ = 0;
};

}  // namespace slotstream::generate
