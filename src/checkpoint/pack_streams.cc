#include "checkpoint/pack_streams.h"

#include <algorithm>
#include <array>

#include "base/crc32c.h"

namespace slotstream::checkpoint {

Status ChunkStream::Write(std::span<const std::byte> chunk) {
  const uint32_t crc = Crc32c(chunk);
  SS_RETURN_IF_ERROR(data_.Append(chunk));
  return checksums_.Append(std::as_bytes(std::span(&crc, 1)));
}

Status ChunkStream::Append(std::span<const std::byte> bytes) {
  position_ += bytes.size();
  while (!bytes.empty()) {
    if (held_.empty() && bytes.size() >= kChunkBytes) {
      SS_RETURN_IF_ERROR(Write(bytes.first(kChunkBytes)));
      bytes = bytes.subspan(kChunkBytes);
      continue;
    }
    const size_t take = std::min<size_t>(bytes.size(), kChunkBytes - held_.size());
    held_.insert(held_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (held_.size() == kChunkBytes) SS_RETURN_IF_ERROR(EndChunk());
  }
  return {};
}

Status ChunkStream::AppendZeros(uint64_t count) {
  constexpr std::array<std::byte, kPageSize> kZeros{};
  for (; count > 0;) {
    const size_t take = std::min<uint64_t>(count, kZeros.size());
    SS_RETURN_IF_ERROR(Append(std::span(kZeros).first(take)));
    count -= take;
  }
  return {};
}

Status ChunkStream::EndChunk() {
  if (held_.empty()) return {};
  SS_RETURN_IF_ERROR(Write(held_));
  held_.clear();
  return {};
}

Status PageStream::AppendPage(std::span<const std::byte> rows) {
  std::array<std::byte, kPageSize> page{};
  std::ranges::copy(rows, page.begin());
  SealNgramPage(page_++, page);
  return data_.Append(page);
}

}  // namespace slotstream::checkpoint
