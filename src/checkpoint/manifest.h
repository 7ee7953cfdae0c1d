// manifest.json of a packed directory: what it is, how it is laid out, and what it was made from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"
#include "checkpoint/packed_layout.h"

namespace slotstream::checkpoint {

// Raised with every change of the layout that older programs would misread. A folded directory has
// a version of its own, which programs that know no folding refuse.
inline constexpr uint32_t kPackedVersion = 1;
inline constexpr uint32_t kFoldedVersion = 2;

// A file known by name, size and contents.
struct FileIdentity {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const FileIdentity&) const = default;
};

struct Manifest {
  PackedLayout layout;
  std::string checksums_sha256;
  std::vector<FileIdentity> side_files;  // config, tokenizer and the like, copied as they were
  std::vector<FileIdentity> sources;     // the weights that were packed
};

std::string FormatManifest(const Manifest& manifest);

// The layout is computed anew from `config` and the group sizes that the manifest names, and every
// number in the manifest must agree. kCorrupt: damaged, or made for another config. kUnsupported:
// a version this program does not know.
Result<Manifest> ParseManifest(std::string_view json, std::string_view name,
                               const ModelConfig& config);

// The side files alone, to check config.json before it is believed.
Result<std::vector<FileIdentity>> ParseSideFiles(std::string_view json, std::string_view name);

}  // namespace slotstream::checkpoint
