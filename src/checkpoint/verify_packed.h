// Reads a packed directory whole and tells every place that is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/read_queue.h"

namespace slotstream::checkpoint {

// A run of neighbouring bad bytes, as finely as the checksums tell.
struct BadPlace {
  std::string file;  // name within the directory
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string what;  // "layer 3, expert 17", "tensor lm_head", "n-gram rows 120 to 159", ...
};
std::string FormatBadPlace(const BadPlace& place);

struct VerifyResult {
  uint64_t bytes = 0;  // read and checked
  std::vector<BadPlace> bad;
};

struct VerifyOptions {
  // Told bytes done and in all; may be empty. Returning false cancels.
  std::function<bool(uint64_t done, uint64_t total)> progress;
  bool direct = true;  // bypass the page cache, so that the disk is what is read
};

// Every byte of the data files and side files. Damage is in the result; errors are what keeps the
// check itself from being made: no manifest or config to go by, kCancelled. The queue must be idle.
Result<VerifyResult> VerifyPacked(const std::string& directory, io::ReadQueue& queue,
                                  const VerifyOptions& options);

}  // namespace slotstream::checkpoint
