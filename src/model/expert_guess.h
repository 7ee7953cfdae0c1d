// What the next layer is likely to need: its own router, asked one layer too early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "model/arena.h"
#include "model/products.h"
#include "model/weights.h"

namespace slotstream::model {

// Writes to `ranked` the experts that `layer` would choose for tokens whose streams are `residual`
// [rows, N*H], the likeliest first: of one token the `per_row` of the highest probabilities; of
// several all that are among the `per_row` highest of any, by the number of such tokens. The
// streams are still without what this layer's experts and the next layer's mixer will add to them.
void GuessExperts(Compute& compute, const checkpoint::ModelConfig& config,
                  const LayerWeights& layer, ConstRows residual, size_t rows, size_t per_row,
                  std::vector<uint32_t>& ranked, Arena arena);

// Adds to `ranked`, distinct experts that a sample of a pass named, all others of `experts` in file
// order, if most of them are likely to be needed too: `needed` experts are, as of the layer before.
void AddTheRest(size_t experts, size_t needed, std::vector<uint32_t>& ranked);

// Scratch that GuessExperts takes.
size_t ExpertGuessScratch(const checkpoint::ModelConfig& config, size_t rows);

}  // namespace slotstream::model
