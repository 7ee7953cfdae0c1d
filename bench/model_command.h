// `slotstream-bench model`: prefill and decode of a whole model with all its experts in memory,
// beside the peer's llama-bench on the same model, and where a decoded token's time goes.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"

namespace slotstream::bench {

struct ModelRunOptions {
  CommonOptions common;
  std::string directory;
  std::string peer_model;  // GGUF; empty: no peer
  size_t prompt = 512;
  size_t decode = 32;
};

Result<std::vector<Row>> MeasureModel(const ModelRunOptions& options);

}  // namespace slotstream::bench
