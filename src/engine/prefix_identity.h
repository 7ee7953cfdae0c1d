// What determines the bits of a state.
#pragma once

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/panel_kernels.h"
#include "state/prefix_file.h"

namespace slotstream::engine {

// Of the weights, the configuration, the compute mode and the arithmetic; not of the build, the
// instruction set or any size. A packed directory is known by its manifest, which has its files'
// checksums; an original one by its files' names, sizes, beginnings and ends. Errors: kIo,
// kNotFound.
Result<state::PrefixIdentity> MakePrefixIdentity(const checkpoint::Checkpoint& checkpoint,
                                                 kernels::ComputeMode compute);

}  // namespace slotstream::engine
