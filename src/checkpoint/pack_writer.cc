#include "checkpoint/pack_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "checkpoint/manifest.h"
#include "checkpoint/ngram_reader.h"
#include "checkpoint/original_checkpoint.h"
#include "checkpoint/pack_sources.h"
#include "checkpoint/pack_streams.h"
#include "checkpoint/pack_workspace.h"
#include "checkpoint/part_reader.h"
#include "checkpoint/sha256.h"
#include "checkpoint/staged_read.h"
#include "checkpoint/verify_packed.h"
#include "io/atomic_file.h"
#include "io/file_lock.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;

// Room for manifest, journal and what file systems themselves need.
constexpr uint64_t kSpaceMargin = uint64_t{32} << 20;
// Reads in flight; a job of RunStaged has at most a dozen, and kStagedJobs run at a time.
constexpr size_t kQueueDepth = 64;

class Packer {
 public:
  Packer(const OriginalCheckpoint& source, PackedLayout layout, io::ReadQueue& queue,
         PackWorkspace& work, const PackOptions& options)
      : source_(source),
        layout_(std::move(layout)),
        queue_(queue),
        work_(work),
        options_(options) {}

  Status CheckSpace() const {
    const uint64_t total = layout_.total_bytes() + kSpaceMargin;
    const uint64_t needed = total - std::min(total, work_.safe_bytes());
    SS_ASSIGN_OR_RETURN(const uint64_t free, options_.free_bytes(work_.directory()));
    if (free >= needed) return {};
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("{}: packing needs {} more bytes, the disk has {}; free some space and "
                            "run the same command again",
                            work_.directory(), needed, free));
  }

  Status WriteData() {
    SS_ASSIGN_OR_RETURN(checksums_, work_.Writer(kChecksumsFile));
    SS_RETURN_IF_ERROR(WritePart(Part::kTrunk, "trunk"));
    SS_RETURN_IF_ERROR(WritePart(Part::kDraft, "draft"));
    SS_RETURN_IF_ERROR(WritePart(Part::kVision, "vision"));
    SS_RETURN_IF_ERROR(WriteExperts());
    return WriteNgrams();
  }

  // The small files, and the manifest last.
  Status WriteManifest(const std::vector<std::string>& side_files) {
    Manifest manifest{.layout = layout_, .checksums_sha256 = {}, .side_files = {}, .sources = {}};
    for (const std::string& name : side_files) {
      SS_ASSIGN_OR_RETURN(const std::string text,
                          io::ReadWholeFile(source_.directory() + "/" + name, kMaxSideFile));
      const auto bytes = std::as_bytes(std::span(text));
      SS_ASSIGN_OR_RETURN(std::string sha256, Sha256Hex(bytes));
      SS_RETURN_IF_ERROR(io::WriteFileAtomically(work_.directory() + "/" + name, bytes));
      manifest.side_files.push_back({name, text.size(), std::move(sha256)});
    }
    for (const SourceState& source : work_.sources()) {
      if (source.name.ends_with(".safetensors")) {
        manifest.sources.push_back({source.name, source.bytes, source.sha256});
      }
    }
    SS_ASSIGN_OR_RETURN(const std::string checksums,
                        io::ReadWholeFile(fmt::format("{}/{}", work_.directory(), kChecksumsFile),
                                          layout_.checksums_bytes()));
    SS_ASSIGN_OR_RETURN(manifest.checksums_sha256, Sha256Hex(std::as_bytes(std::span(checksums))));
    const std::string text = FormatManifest(manifest);
    return io::WriteFileAtomically(fmt::format("{}/{}", work_.directory(), kManifestFile),
                                   std::as_bytes(std::span(text)));
  }

  // Reads everything back from the disk.
  Status Verify() {
    VerifyOptions verify{.progress =
                             [&](uint64_t done, uint64_t total) {
                               Report("verify", done, total);
                               return !cancelled();
                             },
                         .direct = options_.direct};
    SS_ASSIGN_OR_RETURN(const VerifyResult result, VerifyPacked(work_.directory(), queue_, verify));
    if (result.bad.empty()) return {};
    SS_RETURN_IF_ERROR(work_.Discard());
    return Fail(
        ErrorCode::kCorrupt,
        fmt::format("{}: what was written did not read back in {} places, first {}; the "
                    "disk or the memory is unsound. A new run starts over",
                    work_.directory(), result.bad.size(), FormatBadPlace(result.bad.front())));
  }

  const PackedLayout& layout() const { return layout_; }

 private:
  bool cancelled() const { return options_.cancel != nullptr && *options_.cancel; }
  void Report(std::string_view phase, uint64_t done, uint64_t total) const {
    if (options_.progress) options_.progress(phase, done, total);
  }

  // After every block: tells progress, makes a safe point when it is time, stops on a wish.
  Status AfterBlock(std::string_view phase, io::FileWriter& writer, uint64_t total) {
    Report(phase, writer.size(), total);
    const std::string file = fs::path(writer.path()).filename().string();
    if (writer.size() - work_.safe_length(file) >= options_.journal_bytes) {
      SS_RETURN_IF_ERROR(work_.Commit(&writer, checksums_.get()));
    }
    if (cancelled()) {
      return Fail(
          ErrorCode::kCancelled,
          fmt::format("packing was cancelled; the work in {} can be resumed", work_.directory()));
    }
    return {};
  }

  Status WritePart(Part which, std::string_view phase) {
    const PartInventory* part = source_.part(which);
    if (part == nullptr || work_.safe_length(PartFile(which)) == part->layout.bytes) return {};
    SS_ASSIGN_OR_RETURN(const auto writer, work_.Writer(PartFile(which)));
    ChunkStream stream(*writer, *checksums_);
    std::vector<std::byte> block;
    const PartReader reader(source_.index(), source_.inventory(), *part);
    Status status = reader.Read(
        queue_, stream.position(),
        [&](uint64_t, size_t bytes) {
          block.resize(bytes);
          return std::span(block);
        },
        [&](uint64_t offset, size_t) -> Status {
          if (offset > stream.position()) {
            SS_RETURN_IF_ERROR(stream.AppendZeros(offset - stream.position()));
          }
          // A resumed file may already hold the block's first bytes.
          SS_RETURN_IF_ERROR(stream.Append(std::span(block).subspan(stream.position() - offset)));
          return AfterBlock(phase, *writer, part->layout.bytes);
        });
    SS_RETURN_IF_ERROR(std::move(status));
    SS_RETURN_IF_ERROR(stream.AppendZeros(part->layout.bytes - stream.position()));
    SS_RETURN_IF_ERROR(stream.EndChunk());
    return work_.Commit(writer.get(), checksums_.get());
  }

  Status WriteExperts() {
    if (work_.safe_length(kExpertsFile) == layout_.experts_bytes()) return {};
    SS_ASSIGN_OR_RETURN(const auto writer, work_.Writer(kExpertsFile));
    ChunkStream stream(*writer, *checksums_);
    const ExpertFormat& format = source_.experts();
    const uint64_t record_bytes = layout_.expert.record_bytes();
    const uint64_t begin = writer->size() / record_bytes;
    auto layer = [&](size_t job) { return static_cast<uint32_t>((begin + job) / layout_.experts); };
    auto expert = [&](size_t job) {
      return static_cast<uint32_t>((begin + job) % layout_.experts);
    };

    SS_ASSIGN_OR_RETURN(AlignedBuffer record, AlignedBuffer::Allocate(record_bytes, "a record"));
    std::array<AlignedBuffer, kStagedJobs> staging;
    for (AlignedBuffer& buffer : staging) {
      SS_ASSIGN_OR_RETURN(buffer, AlignedBuffer::Allocate(format.staging_bytes(), "staging"));
    }
    std::vector<ReadPiece> pieces;
    Status status = RunStaged(
        queue_, layout_.records() - begin,
        [&](size_t job, size_t slot, std::vector<io::ReadRequest>& out) -> Status {
          pieces.clear();
          format.AppendPieces(layer(job), expert(job), pieces);
          for (const ReadPiece& piece : pieces) {
            out.push_back(piece.Request(staging[slot].data(), /*tag=*/0));  // RunStaged's own
          }
          return {};
        },
        [&](size_t job, size_t slot, Status read) -> Status {
          SS_RETURN_IF_ERROR(std::move(read));
          SS_RETURN_IF_ERROR(
              format.Finish(layer(job), expert(job), staging[slot].span(), record.span()));
          SS_RETURN_IF_ERROR(stream.Append(record.span()));
          SS_RETURN_IF_ERROR(stream.EndChunk());
          return AfterBlock("experts", *writer, layout_.experts_bytes());
        });
    SS_RETURN_IF_ERROR(std::move(status));
    return work_.Commit(writer.get(), checksums_.get());
  }

  Status WriteNgrams() {
    if (layout_.ngrams.empty() || work_.safe_length(kNgramFile) == layout_.ngram_bytes()) return {};
    SS_ASSIGN_OR_RETURN(const auto writer, work_.Writer(kNgramFile));
    for (size_t i = 0; i < layout_.ngrams.size(); ++i) {
      const NgramTableLayout& table = layout_.ngrams[i];
      const uint64_t page = writer->size() / kPageSize;
      if (page >= table.first_page + table.pages()) continue;
      constexpr uint64_t kRunPages = 64;  // 256 KB of output
      const size_t page_rows_bytes = table.rows_per_page() * table.row_bytes();
      PageStream stream(*writer, table);
      Status status = ReadNgramRuns(source_.index(), source_.inventory().ngrams[i],
                                    (page - table.first_page) * table.rows_per_page(),
                                    kRunPages * table.rows_per_page(), queue_,
                                    [&](std::span<const std::byte> rows) -> Status {
                                      while (!rows.empty()) {
                                        const size_t take = std::min(rows.size(), page_rows_bytes);
                                        SS_RETURN_IF_ERROR(stream.AppendPage(rows.first(take)));
                                        rows = rows.subspan(take);
                                      }
                                      return AfterBlock("n-grams", *writer, layout_.ngram_bytes());
                                    });
      SS_RETURN_IF_ERROR(std::move(status));
    }
    return work_.Commit(writer.get(), checksums_.get());
  }

  const OriginalCheckpoint& source_;
  PackedLayout layout_;
  io::ReadQueue& queue_;
  PackWorkspace& work_;
  const PackOptions& options_;
  std::unique_ptr<io::FileWriter> checksums_;
};

Status CheckDestination(const std::string& destination) {
  std::error_code ignored;
  if (!fs::exists(destination, ignored) || fs::is_empty(destination, ignored)) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} exists already; choose another name or remove it first", destination));
}

Result<PackSummary> PackLocked(const std::string& source_directory, const std::string& destination,
                               const PackOptions& options) {
  SS_RETURN_IF_ERROR(CheckDestination(destination));
  SS_ASSIGN_OR_RETURN(const auto source,
                      OriginalCheckpoint::Open(source_directory, {.direct = options.direct}));
  SS_ASSIGN_OR_RETURN(PackedLayout layout, PackedLayoutOf(*source));
  PackSummary summary;
  SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(options.backend, kQueueDepth, nullptr));
  io::ReadQueue queue(std::move(backend), Clock::Steady());

  SS_ASSIGN_OR_RETURN(const std::vector<std::string> side_files, ListSideFiles(source_directory));
  SS_ASSIGN_OR_RETURN(std::vector<SourceState> states, ExamineSources(*source, side_files));
  SS_ASSIGN_OR_RETURN(PackWorkspace work,
                      PackWorkspace::Open(destination + ".packing", states, summary.notes));
  summary.resumed = work.resumed();
  Packer packer(*source, std::move(layout), queue, work, options);
  SS_RETURN_IF_ERROR(packer.CheckSpace());
  SS_RETURN_IF_ERROR(HashSources(*source, queue, work, options));
  SS_RETURN_IF_ERROR(packer.WriteData());

  SS_ASSIGN_OR_RETURN(const std::vector<SourceState> now, ExamineSources(*source, side_files));
  auto same = [](const SourceState& a, const SourceState& b) { return a.SameFile(b); };
  if (!std::ranges::equal(states, now, same)) {
    SS_RETURN_IF_ERROR(work.Discard());
    return Fail(
        ErrorCode::kCorrupt,
        fmt::format("files in {} changed while they were packed; run the same command again "
                    "once they rest",
                    source_directory));
  }
  SS_RETURN_IF_ERROR(packer.WriteManifest(side_files));
  SS_RETURN_IF_ERROR(packer.Verify());
  SS_RETURN_IF_ERROR(io::RenameDirectoryAtomically(work.directory(), destination));
  std::error_code ignored;  // the journal has done its work; left behind it does no harm
  fs::remove(fmt::format("{}/{}", destination, kJournalFile), ignored);
  summary.bytes = packer.layout().total_bytes();
  return summary;
}

}  // namespace

Result<PackSummary> Pack(const std::string& source, const std::string& destination,
                         const PackOptions& options) {
  std::string target = destination;
  while (target.size() > 1 && target.ends_with('/')) target.pop_back();
  SS_ASSIGN_OR_RETURN(const Form form, DetectForm(source));
  if (form == Form::kPacked) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is packed already", source));
  }
  const std::string lock_path = target + ".packing.lock";
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock, io::FileLock::Acquire(lock_path));
  Result<PackSummary> result = PackLocked(source, target, options);
  if (result) {
    // Harmless to a rival that opened the file before: it will find that the target exists.
    std::error_code ignored;
    fs::remove(lock_path, ignored);
  }
  return result;
}

}  // namespace slotstream::checkpoint
