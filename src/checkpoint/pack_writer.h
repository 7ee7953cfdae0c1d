// Makes a packed directory from an original checkpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/backend.h"
#include "io/free_space.h"

namespace slotstream::checkpoint {

struct PackOptions {
  // Told the phase ("hash", "trunk", "draft", "vision", "experts", "n-grams", "verify") and its
  // bytes done and in all; may be empty.
  std::function<void(std::string_view phase, uint64_t done, uint64_t total)> progress;
  // Set from any thread to stop at the next block; what is done stays and is resumed.
  const std::atomic<bool>* cancel = nullptr;
  io::BackendKind backend = io::BackendKind::kAuto;
  bool direct = true;
  // Hashes of source files already known, by file name (a download computes them on its way); the
  // others are computed by reading the files.
  std::map<std::string, std::string> known_sha256;
  // Bytes between two safe points. Each costs a few syncs (some 10 ms); a killed pack repeats at
  // most this much.
  uint64_t journal_bytes = uint64_t{256} << 20;
  // Free bytes where the output goes.
  std::function<Result<uint64_t>(const std::string& path)> free_bytes = io::FreeBytes;
};

struct PackSummary {
  uint64_t bytes = 0;  // of the packed directory
  bool resumed = false;
  std::vector<std::string> notes;  // what an operator should know
};

// Packs `source` into the new directory `destination`. The work is done in `destination`.packing,
// which a later call resumes, whatever moment this one ended at; it is read back and compared with
// its checksums before it becomes `destination` by one rename. Memory: some tens of MB.
//
// Errors: those of Checkpoint::Open; kInvalidArgument (`destination` exists, `source` is packed
// already), kResourceLimit (disk space; another pack at work on `destination`), kCancelled, kIo,
// kCorrupt (what was written did not read back; the source changed meanwhile).
Result<PackSummary> Pack(const std::string& source, const std::string& destination,
                         const PackOptions& options);

}  // namespace slotstream::checkpoint
