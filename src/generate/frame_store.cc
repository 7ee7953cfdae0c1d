#include "generate/frame_store.h"

#include <utility>

namespace slotstream::generate {

FrameId FrameStore::Intern(const Frame& frame) {
  const auto [found, fresh] = ids_.try_emplace(frame, static_cast<FrameId>(frames_.size()));
  if (fresh) {
    frames_.push_back(frame);
    marks_.push_back(0);
  }
  return found->second;
}

bool FrameStore::New(FrameId id) { return std::exchange(marks_[id], set_) != set_; }

size_t FrameStore::bytes() const {
  // A frame, its copy as a key with the key's links, its mark.
  constexpr size_t each = 2 * sizeof(Frame) + 32 + sizeof(uint32_t);
  return frames_.size() * each + bits_bytes_;
}

void FrameStore::Clear() {
  frames_.assign(1, {});
  marks_.assign(1, 0);
  set_ = 0;
  ids_.clear();
  bits_.clear();
  bit_ids_.clear();
  bits_bytes_ = 0;
  InternBits({});
}

uint32_t FrameStore::InternBits(std::vector<uint64_t> bits) {
  const auto [found, fresh] =
      bit_ids_.try_emplace(std::move(bits), static_cast<uint32_t>(bits_.size()));
  if (fresh) {
    bits_.push_back(&found->first);
    bits_bytes_ += 96 + 8 * found->first.size();  // the map's node and the pointer to it
  }
  return found->second;
}

uint32_t FrameStore::BitsWith(uint32_t id, size_t number) {
  std::vector<uint64_t> bits = *bits_[id];
  if (bits.size() <= number / 64) bits.resize(number / 64 + 1);
  bits[number / 64] |= uint64_t{1} << number % 64;
  return InternBits(std::move(bits));
}

FrameId FrameStore::CopyAlone(FrameStore& other, Frame frame) const {
  frame.below = kBottom;
  frame.seen = other.InternBits(*bits_[frame.seen]);
  return other.Intern(frame);
}

FrameId FrameStore::CopyTo(FrameStore& other, FrameId id,
                           std::unordered_map<FrameId, FrameId>& copied) const {
  std::vector<FrameId> path;
  for (; id != kBottom && !copied.contains(id); id = at(id).below) path.push_back(id);
  FrameId copy = id == kBottom ? kBottom : copied[id];
  for (; !path.empty(); path.pop_back()) {
    Frame frame = at(path.back());
    frame.below = copy;
    frame.seen = other.InternBits(*bits_[frame.seen]);
    copy = copied[path.back()] = other.Intern(frame);
  }
  return copy;
}

}  // namespace slotstream::generate
