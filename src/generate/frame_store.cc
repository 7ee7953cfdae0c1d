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

}  // namespace slotstream::generate
