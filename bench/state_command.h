// `slotstream-bench state`: how fast a conversation's state of the published geometry is copied in
// memory and written to and read from a disk, beside the memory's and the disk's own rates.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"

namespace slotstream::bench {

struct StateOptions {
  CommonOptions common;
  std::string directory;  // on the disk to measure
  size_t tokens = 4096;
};

Result<std::vector<Row>> MeasureState(const StateOptions& options);

}  // namespace slotstream::bench
