#include "checkpoint/packed_layout.h"

#include <fmt/format.h>

#include <algorithm>

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

uint64_t PackedLayout::first_checksum(uint64_t record) const {
  uint64_t first = 0;
  for (Part which : kParts) {
    if (part(which) != nullptr) first += Chunks(part(which)->bytes);
  }
  return first + record * Chunks(expert.record_bytes());
}

uint64_t PackedLayout::total_bytes() const {
  uint64_t total = experts_bytes() + ngram_bytes() + checksums_bytes();
  for (Part which : kParts) {
    if (part(which) != nullptr) total += part(which)->bytes;
  }
  return total;
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
