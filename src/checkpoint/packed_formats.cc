#include "checkpoint/packed_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace slotstream::checkpoint {
namespace {

class PackedExperts final : public ExpertFormat {
 public:
  PackedExperts(const PackedLayout& layout, const io::File& file,
                std::span<const uint32_t> checksums)
      : ExpertFormat(layout.expert, layout.expert_layers, layout.experts),
        file_(file),
        stored_(layout.stored_records()),
        checksums_(checksums.subspan(layout.first_checksum(uint64_t{0}))) {}

  size_t staging_bytes() const override { return 0; }

  void AppendPieces(uint32_t layer, uint32_t expert, std::vector<ReadPiece>& out) const override {
    const uint64_t begin = FileOrder(layer, expert);
    for (uint64_t at = 0; at < record_bytes(); at += kChunkBytes) {
      const auto length = static_cast<uint32_t>(std::min(kChunkBytes, record_bytes() - at));
      out.push_back({.file = &file_,
                     .offset = begin + at,
                     .length = length,
                     .required = length,
                     .destination = at});
    }
  }

  Status Finish(uint32_t layer, uint32_t expert, std::span<const std::byte>,
                std::span<std::byte> record) const override {
    const uint64_t begin = FileOrder(layer, expert);
    size_t chunk = begin / record_bytes() * Chunks(record_bytes());
    for (uint64_t at = 0; at < record_bytes(); at += kChunkBytes, ++chunk) {
      const uint64_t length = std::min(kChunkBytes, record_bytes() - at);
      if (Crc32c(record.subspan(at, length)) == checksums_[chunk]) continue;
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("{}: layer {}, expert {}: bytes {} to {} fail their checksum; run "
                              "'slotstream verify' on the directory, then pack again",
                              file_.path(), layer, expert, begin + at, begin + at + length));
    }
    return {};
  }

  uint64_t FileOrder(uint32_t layer, uint32_t expert) const override {
    return (uint64_t{layer} * experts() + expert) % stored_ * record_bytes();
  }

 private:
  uint64_t record_bytes() const { return shape().record_bytes(); }

  const io::File& file_;
  uint64_t stored_;                      // records in the file
  std::span<const uint32_t> checksums_;  // of stored records
};

class PackedNgrams final : public NgramFormat {
 public:
  PackedNgrams(const NgramTableLayout& table, const io::File& file, uint64_t stored_pages)
      : NgramFormat(table.rows, table.width, table.group),
        file_(file),
        first_page_(table.first_page),
        rows_per_page_(table.rows_per_page()),
        stored_pages_(stored_pages) {}

  size_t staging_bytes() const override { return kPageSize; }

  void AppendPieces(uint64_t row, std::vector<ReadPiece>& out) const override {
    out.push_back({.file = &file_,
                   .offset = Page(row) * kPageSize,
                   .length = kPageSize,
                   .required = kPageSize,
                   .destination = 0});
  }

  Status Finish(uint64_t row, std::span<const std::byte> staging,
                std::span<std::byte> out) const override {
    uint32_t stored = 0;
    std::memcpy(&stored, staging.data() + kNgramPageData, sizeof(stored));
    if (NgramPageChecksum(Page(row), staging) != stored) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("{}: n-gram row {}: the page at byte {} fails its checksum; run "
                              "'slotstream verify' on the directory, then pack again",
                              file_.path(), row, Page(row) * kPageSize));
    }
    std::memcpy(out.data(), staging.data() + row % rows_per_page_ * row_bytes(), row_bytes());
    return {};
  }

 private:
  // In the file.
  uint64_t Page(uint64_t row) const { return (first_page_ + row / rows_per_page_) % stored_pages_; }

  const io::File& file_;
  uint64_t first_page_;
  uint64_t rows_per_page_;
  uint64_t stored_pages_;
};

}  // namespace

std::unique_ptr<ExpertFormat> MakePackedExperts(const PackedLayout& layout, const io::File& file,
                                                std::span<const uint32_t> checksums) {
  return std::make_unique<PackedExperts>(layout, file, checksums);
}

std::unique_ptr<NgramFormat> MakePackedNgrams(const PackedLayout& layout, size_t i,
                                              const io::File& file) {
  return std::make_unique<PackedNgrams>(layout.ngrams[i], file, layout.stored_ngram_pages());
}

}  // namespace slotstream::checkpoint
