// Writes packed directories of random weights, in any geometry.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/free_space.h"

namespace slotstream::checkpoint {

struct SynthOptions {
  std::string config;       // text of config.json
  std::string config_name;  // for messages
  uint64_t seed = 1;
  uint32_t fold = 1;  // see PackedLayout::fold
  double skew = 1;    // see WeightRecipes; finite, not negative
  // Ids that replies should not end with or contain; those past the vocabulary are an error.
  std::vector<uint32_t> quiet_ids;
  bool draft = false;  // write the draft head and the vision tower that the config has
  bool vision = false;
  std::map<std::string, std::string> side_files;  // beside config.json: name and contents
  int threads = 1;
  // Told the phase ("trunk", "draft", "vision", "experts", "n-grams") and its bytes done and in
  // all; may be empty.
  std::function<void(std::string_view phase, uint64_t done, uint64_t total)> progress;
  // Set from any thread to stop at the next block.
  const std::atomic<bool>* cancel = nullptr;
  // Free bytes where the output goes.
  std::function<Result<uint64_t>(const std::string& path)> free_bytes = io::FreeBytes;
};

struct SynthSummary {
  uint64_t bytes = 0;           // of the data files
  uint64_t records = 0;         // experts of the model
  uint64_t stored_records = 0;  // experts in the file
};

// Makes the new directory `destination`; the bytes depend on config, seed, skew and parts, a folded
// file is the beginning of the unfolded one. The work is done in `destination`.synth, which becomes
// `destination` by one rename; a failed or cancelled call removes it, one left by a killed process
// is emptied. Memory: some tens of MB.
//
// Errors: those of ParseConfig; kInvalidArgument (`destination` exists, a wish that makes no
// sense), kUnsupported (sizes that 4-bit groups do not divide), kResourceLimit (disk space;
// another writer of `destination`), kCancelled, kIo.
Result<SynthSummary> Synthesize(const std::string& destination, const SynthOptions& options);

}  // namespace slotstream::checkpoint
