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

void FrameStore::Clear() {
  frames_.assign(1, {});
  marks_.assign(1, 0);
  set_ = 0;
  ids_.clear();
}

FrameId FrameStore::CopyTo(FrameStore& other, FrameId id,
                           std::unordered_map<FrameId, FrameId>& copied) const {
  std::vector<FrameId> path;
  for (; id != kBottom && !copied.contains(id); id = at(id).below) path.push_back(id);
  FrameId copy = id == kBottom ? kBottom : copied[id];
  for (; !path.empty(); path.pop_back()) {
    Frame frame = at(path.back());
    frame.below = copy;
    copy = copied[path.back()] = other.Intern(frame);
  }
  return copy;
}

}  // namespace slotstream::generate
