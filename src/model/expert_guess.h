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

// Writes to `ranked` the `count` experts, at most all, that `layer` would give the highest
// probabilities for the one token whose streams are `residual` [1, N*H], the highest first. The
// streams are still without what this layer's experts and the next layer's mixer will add to them.
void GuessExperts(Compute& compute, const checkpoint::ModelConfig& config,
                  const LayerWeights& layer, ConstRows residual, size_t count,
                  std::vector<uint32_t>& ranked, Arena arena);

// Scratch that GuessExperts takes.
size_t ExpertGuessScratch(const checkpoint::ModelConfig& config);

}  // namespace slotstream::model
