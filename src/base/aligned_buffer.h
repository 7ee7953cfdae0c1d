// Page-aligned anonymous memory for slots, staging areas and trunk.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"

namespace slotstream {

inline constexpr size_t kPageSize = 4096;

constexpr size_t AlignUp(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Owns `size` zeroed bytes from mmap, aligned to kPageSize; movable, not copyable. Pages, huge ones
// where the system has them, become resident when first written and go back to the system when the
// buffer goes.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // kResourceLimit when the system refuses; `what` names the buffer in the message.
  static Result<AlignedBuffer> Allocate(size_t size, std::string_view what);

  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }
  std::span<const std::byte> span() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace slotstream
