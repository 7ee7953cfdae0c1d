// How routed experts and n-gram rows are read from a packed directory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "checkpoint/checkpoint.h"
#include "checkpoint/packed_layout.h"
#include "io/file.h"

namespace slotstream::checkpoint {

// One piece per checksum chunk, straight into the record. `file` and `checksums` (all of
// checksums.bin) outlive the result.
std::unique_ptr<ExpertFormat> MakePackedExperts(const PackedLayout& layout, const io::File& file,
                                                std::span<const uint32_t> checksums);

// The i-th table: one page per row. `file` outlives the result.
std::unique_ptr<NgramFormat> MakePackedNgrams(const PackedLayout& layout, size_t i,
                                              const io::File& file);

}  // namespace slotstream::checkpoint
