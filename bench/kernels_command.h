// `slotstream-bench kernels`: roofs, and products of the true model's shapes beside the peer's.
#pragma once

#include <vector>

#include "bench/options.h"

namespace slotstream::bench {

Result<std::vector<Row>> MeasureKernels(const CommonOptions& options);

}  // namespace slotstream::bench
