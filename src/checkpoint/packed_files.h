// The files of a packed directory, opened and checked as far as that goes without reading all data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"
#include "checkpoint/manifest.h"
#include "io/file.h"

namespace slotstream::checkpoint {

// Manifest and config of a packed directory; everything else depends on them.
struct PackedHeader {
  ModelConfig config;
  Manifest manifest;
};
// config.json must be the file that was packed. Errors: kNotFound, kCorrupt, kUnsupported, kIo.
Result<PackedHeader> ReadPackedHeader(const std::string& directory);

// Contents of a side file (at most kMaxSideFileBytes); kCorrupt when size or hash differ from the
// manifest's.
inline constexpr uint64_t kMaxSideFileBytes = 256u << 20;
Result<std::string> ReadSideFile(const std::string& directory, const FileIdentity& identity);

// Opens a data file that must have `bytes` bytes. kCorrupt when it is truncated or too long.
Result<std::unique_ptr<io::File>> OpenPackedFile(const std::string& directory,
                                                 std::string_view name, uint64_t bytes,
                                                 bool direct);

// checksums.bin as numbers, compared with the manifest's hash of it.
Result<std::vector<uint32_t>> ReadChecksums(const std::string& directory, const Manifest& manifest);

}  // namespace slotstream::checkpoint
