// `slotstream-bench stream`: a model whose experts do not fit into memory, against what this disk
// gives, with and without look-ahead, beside the peer's memory-mapped way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"

namespace slotstream::bench {

struct StreamOptions {
  CommonOptions common;
  std::string directory;
  std::string peer_model;        // GGUF; empty: no peer
  size_t limit_mib = 0;          // of the process and the peer, in a control group; 0: none
  uint32_t slots_per_layer = 0;  // 0: as many as the memory allows
  double disk_gb_s = 0;          // a disk no faster than this is imitated; 0: this machine's
  size_t prompt = 0;             // tokens of the prefill; 0: none
  size_t pass = 0;               // tokens of a pass; 0: the whole prompt
  size_t decode = 32;            // tokens of a round, with look-ahead and without
  size_t warm = 64;              // tokens before the first round, which fill the pool
};

Result<std::vector<Row>> MeasureStream(const StreamOptions& options);

}  // namespace slotstream::bench
