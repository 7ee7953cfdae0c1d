#include "bench/weight_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace slotstream::bench {

Result<WeightBuffer> WeightBuffer::Allocate(size_t bytes) {
  // Whole huge pages on every architecture we know.
  constexpr size_t kHugePage = size_t{2} << 20;
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(AlignUp(bytes, kHugePage), "the weights to measure"));
  // A wish; without huge pages the figures are the machine's own all the same.
  (void)madvise(memory.data(), memory.size(), MADV_HUGEPAGE);
  uint32_t seed = 1;
  for (size_t i = 0; i < memory.size(); i += sizeof(uint16_t)) {
    seed = seed * 1664525u + 1013904223u;  // Numerical Recipes
    const auto word = static_cast<uint16_t>(0x3c00u | (seed >> 24));
    std::memcpy(memory.data() + i, &word, sizeof word);
  }
  return WeightBuffer(std::move(memory));
}

const std::byte* WeightBuffer::Next(size_t bytes) {
  if (next_ + bytes > memory_.size()) next_ = 0;
  const std::byte* at = memory_.data() + next_;
  next_ += AlignUp(bytes, kPageSize);
  return at;
}

}  // namespace slotstream::bench
