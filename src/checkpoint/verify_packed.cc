#include "checkpoint/verify_packed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/crc32c.h"
#include "checkpoint/packed_files.h"
#include "checkpoint/packed_layout.h"
#include "checkpoint/staged_read.h"

namespace slotstream::checkpoint {
namespace {

class Verifier {
 public:
  Verifier(const std::string& directory, const Manifest& manifest, io::ReadQueue& queue,
           const VerifyOptions& options)
      : directory_(directory),
        manifest_(manifest),
        layout_(manifest.layout),
        queue_(queue),
        options_(options),
        total_(manifest.layout.total_bytes()) {
    for (const FileIdentity& side : manifest.side_files) total_ += side.bytes;
  }

  Result<VerifyResult> Run() {
    for (const FileIdentity& side : manifest_.side_files) {
      SS_RETURN_IF_ERROR(CheckSideFile(side));
    }
    auto checksums = ReadChecksums(directory_, manifest_);
    if (checksums) {
      checksums_ = std::move(*checksums);
      SS_RETURN_IF_ERROR(Advance(layout_.checksums_bytes()));
    } else {
      // Without them only the n-gram pages, which carry their own, can be judged.
      Bad(kChecksumsFile, 0, layout_.checksums_bytes(), checksums.error().message);
    }
    if (!checksums_.empty()) {
      for (Part part : kParts) SS_RETURN_IF_ERROR(CheckPart(part));
      SS_RETURN_IF_ERROR(CheckExperts());
    }
    SS_RETURN_IF_ERROR(CheckNgrams());
    return std::move(result_);
  }

 private:
  // What is judged at a time: a chunk, a record or a page. `judge` calls `bad` for each wrong range
  // within the unit.
  struct Unit {
    using Bad = std::function<void(uint64_t at, uint64_t bytes)>;
    uint64_t bytes = 0;
    std::function<void(uint64_t offset, std::span<const std::byte> data, const Bad& bad)> judge;
    std::function<std::string(uint64_t offset)> describe;
  };

  void Bad(std::string_view file, uint64_t offset, uint64_t bytes, std::string what) {
    if (!result_.bad.empty()) {
      BadPlace& last = result_.bad.back();
      if (last.file == file && last.what == what && last.offset + last.bytes == offset) {
        last.bytes += bytes;
        return;
      }
    }
    result_.bad.push_back({std::string(file), offset, bytes, std::move(what)});
  }

  Status Advance(uint64_t bytes) {
    result_.bytes += bytes;
    if (!options_.progress || options_.progress(result_.bytes, total_)) return {};
    return Fail(ErrorCode::kCancelled, "the check was cancelled");
  }

  Status CheckSideFile(const FileIdentity& side) {
    auto text = ReadSideFile(directory_, side);
    if (!text) Bad(side.name, 0, side.bytes, text.error().message);
    return Advance(side.bytes);
  }

  // Reads a file in blocks and judges it unit by unit; `block` is a multiple of the unit.
  Status CheckFile(std::string_view name, uint64_t bytes, uint64_t block, const Unit& unit) {
    auto file = io::File::Open(fmt::format("{}/{}", directory_, name), options_.direct);
    if (!file) {
      Bad(name, 0, bytes, file.error().message);
      return {};
    }
    const uint64_t size = (*file)->size();
    if (size > bytes) Bad(name, bytes, size - bytes, "the file is too long");
    const uint64_t whole = std::min(size, bytes) / unit.bytes * unit.bytes;
    const uint64_t readable = size >= bytes ? bytes : whole;
    SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                        AlignedBuffer::Allocate(kStagedJobs * block, "blocks to check"));
    auto length = [&](size_t job) { return std::min(block, readable - job * block); };
    auto add_reads = [&](size_t job, size_t slot, std::vector<io::ReadRequest>& out) -> Status {
      for (uint64_t at = 0; at < length(job); at += kStagedReadBytes) {
        const auto n = static_cast<uint32_t>(std::min(kStagedReadBytes, length(job) - at));
        out.push_back({.file = file->get(),
                       .offset = job * block + at,
                       .destination = memory.data() + slot * block + at,
                       .length = n,
                       .required = n});
      }
      return {};
    };
    auto judge = [&](size_t job, size_t slot, const Status& read) -> Status {
      for (uint64_t at = 0; at < length(job); at += unit.bytes) {
        const uint64_t n = std::min(unit.bytes, length(job) - at);
        const uint64_t offset = job * block + at;
        const std::span<const std::byte> data = memory.span().subspan(slot * block + at, n);
        if (!read) {
          Bad(name, offset, n, unit.describe(offset) + ": " + read.error().message);
        } else {
          unit.judge(offset, data, [&](uint64_t within, uint64_t length_bad) {
            Bad(name, offset + within, length_bad, unit.describe(offset));
          });
        }
      }
      return Advance(length(job));
    };
    SS_RETURN_IF_ERROR(RunStaged(queue_, (readable + block - 1) / block, add_reads, judge));
    if (readable < bytes) Bad(name, readable, bytes - readable, "the file is truncated");
    return {};
  }

  // Compares chunk after chunk of `data` with the checksums from number `chunk` on.
  void JudgeChunks(uint64_t chunk, std::span<const std::byte> data, const Unit::Bad& bad) const {
    for (uint64_t at = 0; at < data.size(); at += kChunkBytes, ++chunk) {
      const uint64_t n = std::min<uint64_t>(kChunkBytes, data.size() - at);
      if (Crc32c(data.subspan(at, n)) != checksums_[chunk]) bad(at, n);
    }
  }

  Status CheckPart(Part part) {
    const ResidentLayout* layout = layout_.part(part);
    if (layout == nullptr) return {};
    Unit unit;
    unit.bytes = kChunkBytes;
    unit.judge = [&, first = layout_.first_checksum(part)](
                     uint64_t offset, std::span<const std::byte> data, const Unit::Bad& bad) {
      JudgeChunks(first + offset / kChunkBytes, data, bad);
    };
    unit.describe = [layout](uint64_t offset) {
      return fmt::format("from tensor {} on", TensorAt(*layout, offset).name);
    };
    return CheckFile(PartFile(part), layout->bytes, 4 * kChunkBytes, unit);
  }

  // Whole records, because their last chunks are shorter.
  Status CheckExperts() {
    const uint64_t record = layout_.expert.record_bytes();
    Unit unit;
    unit.bytes = record;
    unit.judge = [&, record](uint64_t offset, std::span<const std::byte> data,
                             const Unit::Bad& bad) {
      JudgeChunks(layout_.first_checksum(offset / record), data, bad);
    };
    unit.describe = [&, record](uint64_t offset) {
      const uint64_t i = offset / record;
      return fmt::format("layer {}, expert {}{}", i / layout_.experts, i % layout_.experts,
                         Folded());
    };
    return CheckFile(kExpertsFile, layout_.experts_bytes(), record, unit);
  }

  // For places that stand for others too.
  std::string_view Folded() const { return layout_.fold > 1 ? ", and what is folded onto it" : ""; }

  Status CheckNgrams() {
    if (layout_.ngrams.empty()) return {};
    Unit unit;
    unit.bytes = kPageSize;
    unit.judge = [](uint64_t offset, std::span<const std::byte> data, const Unit::Bad& bad) {
      uint32_t stored = 0;
      std::memcpy(&stored, data.data() + kNgramPageData, sizeof(stored));
      if (NgramPageChecksum(offset / kPageSize, data) != stored) bad(0, kPageSize);
    };
    unit.describe = [&](uint64_t offset) {
      const uint64_t page = offset / kPageSize;
      auto after =
          std::ranges::upper_bound(layout_.ngrams, page, {}, &NgramTableLayout::first_page);
      const NgramTableLayout& table = *std::prev(after);
      const uint64_t row = (page - table.first_page) * table.rows_per_page();
      return fmt::format("layer {}, n-gram rows {} to {}{}", table.layer, row,
                         std::min(row + table.rows_per_page(), table.rows) - 1, Folded());
    };
    return CheckFile(kNgramFile, layout_.ngram_bytes(), 4 * kChunkBytes, unit);
  }

  const std::string& directory_;
  const Manifest& manifest_;
  const PackedLayout& layout_;
  io::ReadQueue& queue_;
  const VerifyOptions& options_;
  uint64_t total_;
  std::vector<uint32_t> checksums_;
  VerifyResult result_;
};

}  // namespace

std::string FormatBadPlace(const BadPlace& place) {
  return fmt::format("{}: bytes {} to {}: {}", place.file, place.offset, place.offset + place.bytes,
                     place.what);
}

Result<VerifyResult> VerifyPacked(const std::string& directory, io::ReadQueue& queue,
                                  const VerifyOptions& options) {
  SS_ASSIGN_OR_RETURN(const PackedHeader header, ReadPackedHeader(directory));
  return Verifier(directory, header.manifest, queue, options).Run();
}

}  // namespace slotstream::checkpoint
