// Where everything lies in the files of a packed directory. docs/FORMATS.md has every byte.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/resident.h"

namespace slotstream::checkpoint {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kExpertsFile = "experts.bin";
inline constexpr std::string_view kNgramFile = "ngram.bin";
inline constexpr std::string_view kChecksumsFile = "checksums.bin";
// The tensor at or before a byte of a part, for messages. The layout is not empty.
const ResidentTensor& TensorAt(const ResidentLayout& layout, uint64_t offset);
// "trunk.bin", "draft.bin", "vision.bin"
std::string_view PartFile(Part part);
inline constexpr Part kParts[] = {Part::kTrunk, Part::kDraft, Part::kVision};

// One CRC-32C covers this much of a part file or an expert record (the last chunk may be shorter).
// Small enough that a record is several reads in flight, each checked on its own; the checksums of
// the published model then take 1.1 MB of memory.
inline constexpr uint64_t kChunkBytes = 256 * 1024;
constexpr uint64_t Chunks(uint64_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

// A page of ngram.bin: rows, zero padding, and the CRC-32C of page number and contents in its last
// four bytes.
inline constexpr size_t kNgramPageData = kPageSize - sizeof(uint32_t);
// What the last four bytes of page `page` (counted from the start of the file) must hold. The page
// number takes part so that a page that strayed to another place is noticed.
uint32_t NgramPageChecksum(uint64_t page, std::span<const std::byte> data);
// Writes it there.
void SealNgramPage(uint64_t page, std::span<std::byte> data);

struct NgramTableLayout {
  uint32_t layer = 0;
  uint64_t rows = 0;
  uint32_t width = 0;
  uint32_t group = 0;
  uint64_t first_page = 0;

  size_t row_bytes() const { return width / 2 + size_t{width} / group * 4; }
  uint64_t rows_per_page() const { return kNgramPageData / row_bytes(); }
  uint64_t pages() const { return (rows + rows_per_page() - 1) / rows_per_page(); }
};

struct PackedLayout {
  ResidentLayout trunk;
  std::optional<ResidentLayout> draft;
  std::optional<ResidentLayout> vision;
  ExpertShape expert;
  uint32_t expert_layers = 0;  // trunk layers, then draft layers
  uint32_t experts = 0;
  std::vector<NgramTableLayout> ngrams;
  // Of a folded directory, more than 1: record r of experts.bin stands for all records r + i *
  // stored_records(), page p of ngram.bin likewise. Each has its own read; only contents repeat.
  // With the plain remainder the same bytes come again as late as any mapping allows: a pass over
  // the layers in order reads the whole file before it reads a byte twice, so that a cache smaller
  // than the file keeps none of it for the next round.
  uint32_t fold = 1;

  // nullptr when there is no such part.
  const ResidentLayout* part(Part part) const;

  uint64_t records() const { return uint64_t{expert_layers} * experts; }
  uint64_t stored_records() const { return (records() + fold - 1) / fold; }
  uint64_t experts_bytes() const { return stored_records() * expert.record_bytes(); }
  uint64_t ngram_pages() const;
  uint64_t stored_ngram_pages() const { return (ngram_pages() + fold - 1) / fold; }
  uint64_t ngram_bytes() const { return stored_ngram_pages() * kPageSize; }

  // checksums.bin is one u32 per chunk: of trunk.bin, draft.bin, vision.bin, then of each stored
  // record.
  uint64_t first_checksum(Part part) const;
  uint64_t first_checksum(uint64_t stored_record) const;
  uint64_t checksums() const { return first_checksum(stored_records()); }
  uint64_t checksums_bytes() const { return checksums() * sizeof(uint32_t); }
  // Of all files above.
  uint64_t total_bytes() const;
};

// kInvalidArgument when there is nothing that `layout.fold` could fold: more than the records, or
// n-gram tables whose pages differ in kind.
Status CheckFold(const PackedLayout& layout);

// Assigns first pages in order. kUnsupported when a row does not fit a page.
Status PlaceNgramTables(std::vector<NgramTableLayout>& tables);

}  // namespace slotstream::checkpoint
