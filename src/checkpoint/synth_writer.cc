#include "checkpoint/synth_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "checkpoint/config.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pack_streams.h"
#include "checkpoint/random_weights.h"
#include "checkpoint/sha256.h"
#include "checkpoint/synth_layout.h"
#include "checkpoint/weight_recipes.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/file_lock.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;

// Drawn at a time: enough for every thread of a large machine, little beside any model.
constexpr size_t kBatchBytes = size_t{16} << 20;
// Room for manifest, side files and what file systems themselves need.
constexpr uint64_t kSpaceMargin = uint64_t{64} << 20;

class SynthWriter {
 public:
  SynthWriter(std::string directory, const ModelConfig& config, PackedLayout layout,
              const SynthOptions& options)
      : directory_(std::move(directory)),
        layout_(std::move(layout)),
        options_(options),
        recipes_(config, options.skew, options.quiet_ids),
        threads_(options.threads) {}

  Status Run() {
    SS_ASSIGN_OR_RETURN(checksums_, io::FileWriter::Create(Path(kChecksumsFile)));
    SS_RETURN_IF_ERROR(WritePart(Part::kTrunk, "trunk"));
    SS_RETURN_IF_ERROR(WritePart(Part::kDraft, "draft"));
    SS_RETURN_IF_ERROR(WritePart(Part::kVision, "vision"));
    SS_RETURN_IF_ERROR(WriteExperts());
    SS_RETURN_IF_ERROR(checksums_->Sync());
    SS_RETURN_IF_ERROR(WriteNgrams());
    return WriteManifest();
  }

 private:
  std::string Path(std::string_view name) const { return fmt::format("{}/{}", directory_, name); }

  Status AfterBatch(std::string_view phase, uint64_t done, uint64_t total) const {
    if (options_.progress) options_.progress(phase, done, total);
    if (options_.cancel == nullptr || !*options_.cancel) return {};
    return Fail(ErrorCode::kCancelled, "the synthesis was cancelled");
  }

  // The next `bytes` bytes of the batch memory, which grows to the largest batch.
  Result<std::span<std::byte>> Batch(size_t bytes) {
    if (batch_.size() < bytes) {
      SS_ASSIGN_OR_RETURN(batch_, AlignedBuffer::Allocate(bytes, "a batch of weights"));
    }
    return batch_.span().first(bytes);
  }

  // Draws `count` units in parallel, batch by batch, and hands each batch to `append`. All units
  // have `unit` bytes but the last, which has `last`.
  template <typename Fill, typename Append>
  Status Generate(size_t count, size_t unit, size_t last, const Fill& fill, const Append& append) {
    const size_t per_batch = std::max<size_t>(1, kBatchBytes / unit);
    for (size_t begin = 0; begin < count; begin += per_batch) {
      const size_t units = std::min(per_batch, count - begin);
      const bool ends = begin + units == count;
      SS_ASSIGN_OR_RETURN(const std::span<std::byte> batch,
                          Batch((units - ends) * unit + (ends ? last : 0)));
      threads_.ParallelFor(units, [&](size_t i) { fill(begin + i, batch.data() + i * unit); });
      SS_RETURN_IF_ERROR(append(batch));
    }
    return {};
  }

  template <typename Append>
  Status GenerateTensor(const ResidentTensor& tensor, const Append& append) {
    const uint64_t key = NameKey(options_.seed, tensor.name);
    if (tensor.storage == Storage::kPanels) {
      const PanelShape shape{tensor.n, tensor.k, tensor.group};
      const PanelRecipe recipe = recipes_.Panels(tensor);
      const uint32_t last = shape.panels() - 1;
      return Generate(
          shape.panels(), PanelBytes(shape, 0), PanelBytes(shape, last),
          [&](size_t panel, std::byte* out) {
            FillPanel(shape, recipe, key, static_cast<uint32_t>(panel), out);
          },
          append);
    }
    const size_t row = tensor.bytes / tensor.n;
    if (tensor.storage == Storage::kRows) {
      const RowRecipe recipe = recipes_.Embeddings();
      return Generate(
          tensor.n, row, row,
          [&](size_t i, std::byte* out) { FillRow(tensor.k, tensor.group, recipe, key, i, out); },
          append);
    }
    const ValueRecipe recipe = recipes_.Values(tensor);
    return Generate(
        tensor.n, row, row,
        [&](size_t i, std::byte* out) {
          if (tensor.storage == Storage::kBf16) {
            FillValues(recipe, key, i, std::span(reinterpret_cast<uint16_t*>(out), tensor.k));
          } else {
            FillValues(recipe, key, i, std::span(reinterpret_cast<float*>(out), tensor.k));
          }
        },
        append);
  }

  Status WritePart(Part which, std::string_view phase) {
    const ResidentLayout* part = layout_.part(which);
    if (part == nullptr) return {};
    SS_ASSIGN_OR_RETURN(const auto writer, io::FileWriter::Create(Path(PartFile(which))));
    ChunkStream stream(*writer, *checksums_);
    for (const ResidentTensor& tensor : part->tensors) {
      SS_RETURN_IF_ERROR(stream.AppendZeros(tensor.offset - stream.position()));
      Status status = GenerateTensor(tensor, [&](std::span<const std::byte> batch) -> Status {
        SS_RETURN_IF_ERROR(stream.Append(batch));
        return AfterBatch(phase, stream.position(), part->bytes);
      });
      SS_RETURN_IF_ERROR(std::move(status));
    }
    SS_RETURN_IF_ERROR(stream.AppendZeros(part->bytes - stream.position()));
    SS_RETURN_IF_ERROR(stream.EndChunk());
    return writer->Sync();
  }

  Status WriteExperts() {
    SS_ASSIGN_OR_RETURN(const auto writer, io::FileWriter::Create(Path(kExpertsFile)));
    ChunkStream stream(*writer, *checksums_);
    const ExpertShape& shape = layout_.expert;
    struct Piece {
      PanelShape shape;
      size_t offset;
      PanelRecipe recipe;
    };
    const Piece pieces[] = {{shape.gate, 0, recipes_.ExpertInner(shape.gate)},
                            {shape.up, shape.up_offset(), recipes_.ExpertInner(shape.up)},
                            {shape.down, shape.down_offset(), recipes_.ExpertDown(shape.down)}};
    const size_t panels = shape.gate.panels() + shape.up.panels() + shape.down.panels();
    const uint64_t key = NameKey(options_.seed, "experts");
    const uint64_t records = layout_.stored_records();
    const uint64_t per_batch = std::max<uint64_t>(1, kBatchBytes / shape.record_bytes());
    for (uint64_t begin = 0; begin < records; begin += per_batch) {
      const uint64_t count = std::min(per_batch, records - begin);
      SS_ASSIGN_OR_RETURN(const std::span<std::byte> batch, Batch(count * shape.record_bytes()));
      threads_.ParallelFor(count * panels, [&](size_t task) {
        const uint64_t record = task / panels;
        auto panel = static_cast<uint32_t>(task % panels);
        size_t i = 0;
        for (; panel >= pieces[i].shape.panels(); ++i) panel -= pieces[i].shape.panels();
        const Piece& piece = pieces[i];
        FillPanel(piece.shape, piece.recipe, Draw(Draw(key, begin + record), i), panel,
                  batch.data() + record * shape.record_bytes() + piece.offset +
                      piece.shape.panel_offset(panel));
      });
      for (uint64_t record = 0; record < count; ++record) {
        const auto whole = batch.subspan(record * shape.record_bytes(), shape.record_bytes());
        std::ranges::fill(whole.subspan(shape.bytes()), std::byte{0});
        SS_RETURN_IF_ERROR(stream.Append(whole));
        SS_RETURN_IF_ERROR(stream.EndChunk());
      }
      SS_RETURN_IF_ERROR(AfterBatch("experts", stream.position(), layout_.experts_bytes()));
    }
    return writer->Sync();
  }

  Status WriteNgrams() {
    if (layout_.ngrams.empty()) return {};
    SS_ASSIGN_OR_RETURN(const auto writer, io::FileWriter::Create(Path(kNgramFile)));
    const RowRecipe recipe = recipes_.NgramRows();
    uint64_t left = layout_.stored_ngram_pages();
    for (const NgramTableLayout& table : layout_.ngrams) {
      const uint64_t key = NameKey(options_.seed, fmt::format("n-grams {}", table.layer));
      const uint64_t pages = std::min(left, table.pages());
      left -= pages;
      Status status = Generate(
          pages, kPageSize, kPageSize,
          [&](size_t page, std::byte* out) {
            const uint64_t first = page * table.rows_per_page();
            const uint64_t rows = std::min(table.rows_per_page(), table.rows - first);
            std::fill_n(out, kPageSize, std::byte{0});
            for (uint64_t row = 0; row < rows; ++row) {
              FillRow(table.width, table.group, recipe, key, first + row,
                      out + row * table.row_bytes());
            }
            SealNgramPage(table.first_page + page, std::span(out, kPageSize));
          },
          [&](std::span<const std::byte> batch) -> Status {
            SS_RETURN_IF_ERROR(writer->Append(batch));
            return AfterBatch("n-grams", writer->size(), layout_.ngram_bytes());
          });
      SS_RETURN_IF_ERROR(std::move(status));
    }
    return writer->Sync();
  }

  Status WriteManifest() {
    Manifest manifest{.layout = layout_, .checksums_sha256 = {}, .side_files = {}, .sources = {}};
    std::map<std::string, std::string> side_files = options_.side_files;
    side_files["config.json"] = options_.config;
    for (const auto& [name, text] : side_files) {
      const auto bytes = std::as_bytes(std::span(text));
      SS_ASSIGN_OR_RETURN(std::string sha256, Sha256Hex(bytes));
      SS_RETURN_IF_ERROR(io::WriteFileAtomically(Path(name), bytes));
      manifest.side_files.push_back({name, text.size(), std::move(sha256)});
    }
    SS_ASSIGN_OR_RETURN(const std::string checksums,
                        io::ReadWholeFile(Path(kChecksumsFile), layout_.checksums_bytes()));
    SS_ASSIGN_OR_RETURN(manifest.checksums_sha256, Sha256Hex(std::as_bytes(std::span(checksums))));
    const std::string text = FormatManifest(manifest);
    return io::WriteFileAtomically(Path(kManifestFile), std::as_bytes(std::span(text)));
  }

  std::string directory_;
  PackedLayout layout_;
  const SynthOptions& options_;
  WeightRecipes recipes_;
  ThreadPool threads_;
  std::unique_ptr<io::FileWriter> checksums_;
  AlignedBuffer batch_;
};

Status CheckWishes(const std::string& destination, const SynthOptions& options) {
  std::error_code ignored;
  if (fs::exists(destination, ignored) && !fs::is_empty(destination, ignored)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} exists already; choose another name or remove it first", destination));
  }
  if (!std::isfinite(options.skew) || options.skew < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a skew of {} is not a number from 0 on", options.skew));
  }
  return {};
}

Status CheckSpace(const std::string& directory, uint64_t bytes, const SynthOptions& options) {
  const uint64_t needed = bytes + kSpaceMargin;
  SS_ASSIGN_OR_RETURN(const uint64_t free, options.free_bytes(directory));
  if (free >= needed) return {};
  return Fail(ErrorCode::kResourceLimit,
              fmt::format("{}: {} bytes are needed, the disk has {}; free some space, or store "
                          "less with fewer layers or a higher fold",
                          directory, needed, free));
}

}  // namespace

Result<SynthSummary> Synthesize(const std::string& destination, const SynthOptions& options) {
  std::string target = destination;
  while (target.size() > 1 && target.ends_with('/')) target.pop_back();
  SS_RETURN_IF_ERROR(CheckWishes(target, options));
  SS_ASSIGN_OR_RETURN(const ModelConfig config, ParseConfig(options.config, options.config_name));
  for (const uint32_t id : options.quiet_ids) {
    if (id < config.vocab_size) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("id {} ends replies, but {} has a vocabulary of {}", id,
                            options.config_name, config.vocab_size));
  }
  SS_ASSIGN_OR_RETURN(PackedLayout layout, SyntheticLayout(config, options));
  const std::string work = target + ".synth";
  const SynthSummary summary{.bytes = layout.total_bytes(),
                             .records = layout.records(),
                             .stored_records = layout.stored_records()};

  const std::string lock_path = work + ".lock";
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock, io::FileLock::Acquire(lock_path));
  std::error_code error;
  fs::remove_all(work, error);
  if (!error) {
    SS_RETURN_IF_ERROR(CheckSpace(work, summary.bytes, options));
    fs::create_directory(work, error);
  }
  if (error) {
    return Fail(ErrorCode::kIo, fmt::format("cannot make {} anew: {}", work, error.message()));
  }
  Status status = SynthWriter(work, config, std::move(layout), options).Run();
  if (status) status = io::RenameDirectoryAtomically(work, target);
  std::error_code ignored;
  if (!status) fs::remove_all(work, ignored);
  SS_RETURN_IF_ERROR(std::move(status));
  // Harmless to a rival that opened the file before: it will find that the target exists.
  fs::remove(lock_path, ignored);
  return summary;
}

}  // namespace slotstream::checkpoint
