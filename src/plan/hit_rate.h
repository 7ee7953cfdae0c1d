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

// How many experts of a layer a pass of `rows` tokens needs that the pool lacks, at the curve's
// `which`. A token misses 1 - h of what it chooses, h the hit rate; what it missed counts as held
// for the tokens after it, as if the pool grew with each (P. J. Denning, "The working set model for
// program behavior", 1968: a working set grows by the miss rate of a memory of its size). Were all
// experts as likely this would be the usual E (1 - (1 - k/E)^rows). More slots never raise it, and
// more rows never raise what one row costs.
double MissesOfPass(const checkpoint::ModelConfig& config, uint64_t slots, uint32_t rows,
                    double Range::* which);

}  // namespace slotstream::plan
