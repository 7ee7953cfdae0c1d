// Scratch memory of a pass.
#pragma once

#include <cstddef>

namespace slotstream::model {

// Hands out float32 arrays one after another. Copy an arena to reuse the same memory for the next
// block: what the copy hands out is free again when the copy goes.
//
// Without memory it only counts: each block's buffers are laid out once with a counting arena to
// learn their size, and by the same code when they are used, so that the two cannot differ.
class Arena {
 public:
  Arena() = default;
  explicit Arena(float* memory) : memory_(memory) {}

  // `count` floats, aligned to a cache line; nullptr when counting.
  float* Take(size_t count) {
    float* taken = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + 15) / 16 * 16;
    return taken;
  }
  size_t used() const { return used_; }

 private:
  float* memory_ = nullptr;
  size_t used_ = 0;
};

}  // namespace slotstream::model
