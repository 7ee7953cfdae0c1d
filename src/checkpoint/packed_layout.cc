#include "checkpoint/packed_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace slotstream::checkpoint {

const ResidentTensor& TensorAt(const ResidentLayout& layout, uint64_t offset) {
  return *std::prev(std::ranges::upper_bound(layout.tensors, offset, {}, &ResidentTensor::offset));
}

std::string_view PartFile(Part part) {
  switch (part) {
    case Part::kTrunk:
      return "trunk.bin";
    case Part::kDraft:
      return "draft.bin";
    case Part::kVision:
      return "vision.bin";
  }
  return "";
}

uint32_t NgramPageChecksum(uint64_t page, std::span<const std::byte> data) {
  return Crc32c(data.first(kNgramPageData), Crc32c(std::as_bytes(std::span(&page, 1))));
}

void SealNgramPage(uint64_t page, std::span<std::byte> data) {
  const uint32_t crc = NgramPageChecksum(page, data);
  std::memcpy(data.data() + kNgramPageData, &crc, sizeof(crc));
}

const ResidentLayout* PackedLayout::part(Part which) const {
  switch (which) {
    case Part::kTrunk:
      return &trunk;
    case Part::kDraft:
      return draft ? &*draft : nullptr;
    case Part::kVision:
      return vision ? &*vision : nullptr;
  }
  return nullptr;
}

uint64_t PackedLayout::ngram_pages() const {
  return ngrams.empty() ? 0 : ngrams.back().first_page + ngrams.back().pages();
}

uint64_t PackedLayout::first_checksum(Part which) const {
  uint64_t first = 0;
  for (Part before : kParts) {
    if (before == which) break;
    if (part(before) != nullptr) first += Chunks(part(before)->bytes);
  }
  return first;
}

uint64_t PackedLayout::first_checksum(uint64_t stored_record) const {
  uint64_t first = 0;
  for (Part which : kParts) {
    if (part(which) != nullptr) first += Chunks(part(which)->bytes);
  }
  return first + stored_record * Chunks(expert.record_bytes());
}

uint64_t PackedLayout::total_bytes() const {
  uint64_t total = experts_bytes() + ngram_bytes() + checksums_bytes();
  for (Part which : kParts) {
    if (part(which) != nullptr) total += part(which)->bytes;
  }
  return total;
}

Status CheckFold(const PackedLayout& layout) {
  if (layout.fold < 1 || layout.fold > layout.records()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a fold of {} is not between 1 and the {} expert records", layout.fold,
                            layout.records()));
  }
  const auto other_group = [&](const NgramTableLayout& table) {
    return table.group != layout.ngrams.front().group;
  };
  if (layout.fold > 1 && std::ranges::any_of(layout.ngrams, other_group)) {
    return Fail(ErrorCode::kInvalidArgument, "n-gram tables of different groups cannot be folded");
  }
  return {};
}

Status PlaceNgramTables(std::vector<NgramTableLayout>& tables) {
  uint64_t page = 0;
  for (NgramTableLayout& table : tables) {
    if (table.row_bytes() > kNgramPageData) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("the n-gram rows of layer {} have {} bytes; the packed form takes at "
                              "most {}",
                              table.layer, table.row_bytes(), kNgramPageData));
    }
    table.first_page = page;
    page += table.pages();
  }
  return {};
}

}  // namespace slotstream::checkpoint
