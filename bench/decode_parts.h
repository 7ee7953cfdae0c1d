// Where a decoded token's time goes: each kind of matrix of a model, timed alone.
#pragma once

#include <vector>

#include "bench/options.h"
#include "bench/rounds.h"
#include "bench/subjects.h"
#include "checkpoint/checkpoint.h"
#include "plan/model_cost.h"

namespace slotstream::bench {

// A decoded token of the whole model, as measured.
struct DecodedToken {
  const kernels::KernelTable* table = nullptr;
  kernels::ComputeMode mode = kernels::ComputeMode::kExact;
  int threads = 1;
  double milliseconds = 0;
};

// Times every role's products, one row, with weights that no cache holds, the delta rule's steps,
// as the model calls them, and visits of an expert pool that has nothing to read. Rows in ms per
// token, then their sum, and what of the measured token is left for everything else: norms,
// attention, routing, the work between the products.
Result<std::vector<Row>> MeasureDecodeParts(const checkpoint::Checkpoint& checkpoint,
                                            const plan::TokenCost& cost,
                                            const std::vector<DecodedToken>& tokens,
                                            WeightBuffer& weights, ThreadPools& pools,
                                            const RoundOptions& options, QuietCores& cores);

}  // namespace slotstream::bench
