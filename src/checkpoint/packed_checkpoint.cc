#include "checkpoint/packed_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"
#include "checkpoint/packed_files.h"
#include "checkpoint/packed_formats.h"
#include "checkpoint/staged_read.h"

namespace slotstream::checkpoint {
Result<std::unique_ptr<PackedCheckpoint>> PackedCheckpoint::Open(const std::string& directory,
                                                                 const OpenOptions& options) {
  SS_ASSIGN_OR_RETURN(PackedHeader header, ReadPackedHeader(directory));
  const PackedLayout& layout = header.manifest.layout;
  for (const FileIdentity& side : header.manifest.side_files) {
    SS_ASSIGN_OR_RETURN(const std::string ignored, ReadSideFile(directory, side));
  }
  SS_ASSIGN_OR_RETURN(std::vector<uint32_t> checksums, ReadChecksums(directory, header.manifest));
  Files files;
  for (size_t i = 0; i < files.parts.size(); ++i) {
    const ResidentLayout* part = layout.part(kParts[i]);
    if (part == nullptr) continue;
    SS_ASSIGN_OR_RETURN(files.parts[i], OpenPackedFile(directory, PartFile(kParts[i]), part->bytes,
                                                       options.direct));
  }
  SS_ASSIGN_OR_RETURN(files.experts, OpenPackedFile(directory, kExpertsFile, layout.experts_bytes(),
                                                    options.direct));
  if (!layout.ngrams.empty()) {
    SS_ASSIGN_OR_RETURN(
        files.ngrams, OpenPackedFile(directory, kNgramFile, layout.ngram_bytes(), options.direct));
  }
  return std::unique_ptr<PackedCheckpoint>(
      new PackedCheckpoint(directory, std::move(header.config), std::move(header.manifest),
                           std::move(files), std::move(checksums)));
}

PackedCheckpoint::PackedCheckpoint(std::string directory, ModelConfig config, Manifest manifest,
                                   Files files, std::vector<uint32_t> checksums)
    : Checkpoint(std::move(directory), std::move(config)),
      manifest_(std::move(manifest)),
      files_(std::move(files)),
      checksums_(std::move(checksums)),
      experts_(MakePackedExperts(manifest_.layout, *files_.experts, checksums_)) {
  for (size_t i = 0; i < manifest_.layout.ngrams.size(); ++i) {
    ngrams_.push_back(MakePackedNgrams(manifest_.layout, i, *files_.ngrams));
  }
}

Status PackedCheckpoint::CheckPartChunk(Part part, uint64_t offset,
                                        std::span<const std::byte> bytes) const {
  const uint64_t chunk = manifest_.layout.first_checksum(part) + offset / kChunkBytes;
  if (Crc32c(bytes) == checksums_[chunk]) return {};
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}/{}: bytes {} to {} (from tensor {} on) fail their checksum; run "
                          "'slotstream verify' on the directory, then pack again",
                          directory(), PartFile(part), offset, offset + bytes.size(),
                          TensorAt(*layout(part), offset).name));
}

std::vector<const io::File*> PackedCheckpoint::streamed_files() const {
  std::vector<const io::File*> files = {files_.experts.get()};
  if (files_.ngrams) files.push_back(files_.ngrams.get());
  return files;
}

Result<ResidentPart> PackedCheckpoint::Load(Part part, io::ReadQueue& queue,
                                            const std::function<void(uint64_t)>& progress,
                                            const std::atomic<bool>* cancel) const {
  const ResidentLayout* source = layout(part);
  if (source == nullptr) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} has no such part", directory()));
  }
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(source->bytes, "resident weights"));
  const io::File& file =
      *files_.parts[static_cast<size_t>(std::ranges::find(kParts, part) - kParts)];
  // A job is a few chunks: with the jobs in flight a dozen reads, enough for any disk.
  constexpr uint64_t kJobBytes = 4 * kChunkBytes;
  auto job_bytes = [&](size_t job) { return std::min(kJobBytes, source->bytes - job * kJobBytes); };
  Status status = RunStaged(
      queue, (source->bytes + kJobBytes - 1) / kJobBytes,
      [&](size_t job, size_t, std::vector<io::ReadRequest>& out) -> Status {
        for (uint64_t at = 0; at < job_bytes(job); at += kChunkBytes) {
          const auto length = static_cast<uint32_t>(std::min(kChunkBytes, job_bytes(job) - at));
          const uint64_t offset = job * kJobBytes + at;
          out.push_back({.file = &file,
                         .offset = offset,
                         .destination = memory.data() + offset,
                         .length = length,
                         .required = length});
        }
        return {};
      },
      [&](size_t job, size_t, Status read) -> Status {
        SS_RETURN_IF_ERROR(std::move(read));
        for (uint64_t at = 0; at < job_bytes(job); at += kChunkBytes) {
          const uint64_t offset = job * kJobBytes + at;
          const uint64_t length = std::min(kChunkBytes, job_bytes(job) - at);
          SS_RETURN_IF_ERROR(CheckPartChunk(part, offset, memory.span().subspan(offset, length)));
        }
        if (progress) progress(job * kJobBytes + job_bytes(job));
        return CheckCancel(cancel);
      });
  SS_RETURN_IF_ERROR(std::move(status));
  return ResidentPart(*source, std::move(memory));
}

}  // namespace slotstream::checkpoint
