// How routed experts and n-gram rows are read from an original checkpoint.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "checkpoint/inventory.h"

namespace slotstream::checkpoint {

// Nine pieces per expert, staged and then put into panels. `index` outlives the result.
std::unique_ptr<ExpertFormat> MakeOriginalExperts(const ModelConfig& config,
                                                  const TensorIndex& index,
                                                  const Inventory& inventory);

// Three pieces per row. `index` outlives the result.
std::unique_ptr<NgramFormat> MakeOriginalNgrams(const TensorIndex& index,
                                                const NgramTableSource& table);

}  // namespace slotstream::checkpoint
