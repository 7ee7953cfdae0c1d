// One load of a model, and how fast it goes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/quiet_cores.h"
#include "kernels/kernels.h"

namespace slotstream::bench {

struct ModelConfiguration {
  std::string directory;
  const kernels::KernelTable* table = nullptr;
  kernels::ComputeMode mode = kernels::ComputeMode::kExact;
  int threads = 1;
  size_t prompt = 512;
  size_t decode = 32;
  bool neighbour = false;  // decode once more beside a busy neighbour
};

// Seconds; absent what does not count, because the cores were not ours.
struct ModelSpeed {
  std::optional<double> prefill;    // of the whole prompt, the last token's logits included
  std::optional<double> decode;     // per token, on an empty context
  std::optional<double> disturbed;  // the same beside a busy neighbour
};

// Loads the model with room for all its experts, runs everything once so that they are all there,
// and then for the measurement. kInternal if anything had to be read even then.
Result<ModelSpeed> MeasureSpeed(const ModelConfiguration& configuration, QuietCores& cores);

}  // namespace slotstream::bench
