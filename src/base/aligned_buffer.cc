#include "base/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace slotstream {
namespace {

constexpr size_t kHugePageSize = size_t{2} << 20;

}  // namespace

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t size, std::string_view what) {
  AlignedBuffer buffer;
  if (size == 0) return buffer;
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return Fail(ErrorCode::kResourceLimit, fmt::format("cannot allocate {} bytes for {}: {}", size,
                                                       what, std::strerror(errno)));
  }
  // Weights stream through: with pages of 4 KiB a good part of the time goes to address
  // translation. A wish; systems without huge pages refuse, which is no error.
  if (size >= kHugePageSize) madvise(address, size, MADV_HUGEPAGE);
  buffer.data_ = static_cast<std::byte*>(address);
  buffer.size_ = size;
  return buffer;
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace slotstream
