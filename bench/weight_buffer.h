// Memory far larger than any cache, full of weights, that products walk through round and round:
// what they read was last touched a whole buffer ago.
#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"
#include "base/result.h"

namespace slotstream::bench {

class WeightBuffer {
 public:
  // Every 16-bit word is a small positive bf16 and four 4-bit values, so a matrix of any shape in
  // panels or bf16 may lie anywhere. Asks for huge pages: the roofs and the peer get them too.
  static Result<WeightBuffer> Allocate(size_t bytes);

  // The next `bytes` of the buffer, from its start again when they would pass its end. At most
  // size().
  const std::byte* Next(size_t bytes);

  const std::byte* data() const { return memory_.data(); }
  size_t size() const { return memory_.size(); }

 private:
  explicit WeightBuffer(AlignedBuffer memory) : memory_(std::move(memory)) {}

  AlignedBuffer memory_;
  size_t next_ = 0;
};

}  // namespace slotstream::bench
