#include "engine/prefix_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/sha256.h"
#include "io/file.h"

namespace slotstream::engine {
namespace {

namespace fs = std::filesystem;

// Raised when the CPU's arithmetic gives other bits than before, which tests/goldens shows.
constexpr int kArithmetic = 1;

// Of a weight file of an original checkpoint, read at each end; its header is in the first.
constexpr uint64_t kEndBytes = 1 << 20;

void AddLine(std::string_view line, checkpoint::Sha256& hash) {
  hash.Update(std::as_bytes(std::span(line)));
  hash.Update(std::as_bytes(std::span("\n", 1)));
}

Status AddFile(const fs::path& path, checkpoint::Sha256& hash) {
  SS_ASSIGN_OR_RETURN(const auto file, io::File::Open(path, false));
  const uint64_t size = file->size();
  AddLine(fmt::format("{} {}", path.filename().string(), size), hash);
  std::vector<std::byte> end(std::min(size, kEndBytes));
  SS_RETURN_IF_ERROR(file->ReadAt(0, end));
  hash.Update(end);
  SS_RETURN_IF_ERROR(file->ReadAt(size - end.size(), end));
  hash.Update(end);
  return {};
}

}  // namespace

Result<state::PrefixIdentity> MakePrefixIdentity(const checkpoint::Checkpoint& checkpoint,
                                                 kernels::ComputeMode compute) {
  checkpoint::Sha256 hash;
  AddLine(fmt::format("prefix format {} arithmetic {} cpu {}", state::kPrefixFormat, kArithmetic,
                      kernels::NameOf(compute)),
          hash);
  const fs::path directory = checkpoint.directory();
  std::vector<fs::path> files = {directory / "config.json"};
  if (checkpoint.form() == checkpoint::Form::kPacked) {
    files.push_back(directory / "manifest.json");
  } else {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    std::sort(files.begin() + 1, files.end());
  }
  for (const fs::path& file : files) SS_RETURN_IF_ERROR(AddFile(file, hash));
  SS_ASSIGN_OR_RETURN(const std::string hex, hash.Hex());
  state::PrefixIdentity identity;
  for (size_t i = 0; i < identity.size(); ++i) {
    unsigned value = 0;
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, value, 16);
    identity[i] = static_cast<std::byte>(value);
  }
  return identity;
}

}  // namespace slotstream::engine
