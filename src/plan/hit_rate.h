// What share of a decoded token's experts a pool holds.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "plan/rates.h"

namespace slotstream::plan {

// For a pool of `slots` slots. Read off curves that were measured (docs/CACHE.md, docs/MEMORY.md):
// `typical` and `high` are replays of this engine's policy on the synthetic model of the published
// geometry, `low` is the least that was published for the trained model. Between points
// straight in the logarithm of the slots; a pool below half a token's experts hits nothing. Other
// geometries are put on the same curve by where they lie between one token's experts of a layer
// and all of them, which is a guess. More slots never lower any of the three.
Range HitRate(const checkpoint::ModelConfig& config, uint64_t slots);

}  // namespace slotstream::plan
