#include "checkpoint/pack_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "checkpoint/manifest.h"
#include "checkpoint/sha256.h"
#include "checkpoint/staged_read.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string NameOf(const SafetensorsFile& file) {
  return fs::path(file.file().path()).filename().string();
}

// Names go into JSON and must not collide with our own.
bool IsSideFileName(const std::string& name) {
  const bool printable =
      std::ranges::all_of(name, [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
  return printable && !name.starts_with('.') && !name.ends_with(".safetensors") &&
         !name.ends_with(".bin") && name != "model.safetensors.index.json" &&
         name != kManifestFile && name != kJournalFile;
}

}  // namespace

Result<PackedLayout> PackedLayoutOf(const OriginalCheckpoint& source) {
  const Inventory& inventory = source.inventory();
  PackedLayout out{.trunk = inventory.trunk.layout,
                   .draft = std::nullopt,
                   .vision = std::nullopt,
                   .expert = inventory.expert,
                   .expert_layers = static_cast<uint32_t>(inventory.experts.size()),
                   .experts = source.config().num_experts,
                   .ngrams = {}};
  if (inventory.draft) out.draft = inventory.draft->layout;
  if (inventory.vision) out.vision = inventory.vision->layout;
  for (size_t i = 0; i < inventory.ngrams.size(); ++i) {
    const NgramTableSource& table = inventory.ngrams[i];
    out.ngrams.push_back({.layer = source.config().ple_layers[i],
                          .rows = table.rows,
                          .width = table.width,
                          .group = table.group});
  }
  SS_RETURN_IF_ERROR(PlaceNgramTables(out.ngrams));
  return out;
}

Result<std::vector<std::string>> ListSideFiles(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    std::error_code ignored;
    if (!entry.is_regular_file(ignored) || entry.file_size(ignored) > kMaxSideFile) continue;
    std::string name = entry.path().filename().string();
    if (IsSideFileName(name)) out.push_back(std::move(name));
  }
  if (error) {
    return Fail(ErrorCode::kIo, fmt::format("cannot list {}: {}", directory, error.message()));
  }
  std::ranges::sort(out);
  return out;
}

Result<std::vector<SourceState>> ExamineSources(const OriginalCheckpoint& source,
                                                const std::vector<std::string>& side_files) {
  std::vector<SourceState> out;
  for (const auto& file : source.index().files) {
    SS_ASSIGN_OR_RETURN(SourceState state,
                        ReadSourceState(source.directory(), NameOf(*file), file->data_start()));
    out.push_back(std::move(state));
  }
  for (const std::string& name : side_files) {
    SS_ASSIGN_OR_RETURN(SourceState state, ReadSourceState(source.directory(), name, kMaxSideFile));
    out.push_back(std::move(state));
  }
  return out;
}

Status HashSources(const OriginalCheckpoint& source, io::ReadQueue& queue, PackWorkspace& work,
                   const PackOptions& options) {
  constexpr uint64_t kBlock = uint64_t{1} << 20;
  uint64_t total = 0;
  for (const auto& file : source.index().files) total += file->file().size();
  uint64_t done = 0;
  for (size_t i = 0; i < source.index().files.size(); ++i) {
    const io::File& file = source.index().files[i]->file();
    SourceState& state = work.sources()[i];
    if (auto known = options.known_sha256.find(state.name); known != options.known_sha256.end()) {
      state.sha256 = known->second;
    }
    if (!state.sha256.empty()) {
      done += file.size();
      continue;
    }
    Sha256 hash;
    SS_RETURN_IF_ERROR(ReadStaged(
        queue, (file.size() + kBlock - 1) / kBlock,
        [&](size_t job, std::vector<FileRange>& out) {
          out.push_back({&file, job * kBlock, std::min(kBlock, file.size() - job * kBlock)});
        },
        [&](size_t job, std::span<const std::byte* const> data) -> Status {
          const uint64_t bytes = std::min(kBlock, file.size() - job * kBlock);
          hash.Update({data[0], bytes});
          done += bytes;
          if (options.progress) options.progress("hash", done, total);
          if (options.cancel == nullptr || !*options.cancel) return {};
          return Fail(ErrorCode::kCancelled, "packing was cancelled while it read the source");
        }));
    SS_ASSIGN_OR_RETURN(state.sha256, hash.Hex());
    SS_RETURN_IF_ERROR(work.Commit(nullptr, nullptr));
  }
  return {};
}

}  // namespace slotstream::checkpoint
