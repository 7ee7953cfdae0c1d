// How a synthetic checkpoint lies on the disk.
#pragma once

#include "base/result.h"
#include "checkpoint/config.h"
#include "checkpoint/packed_layout.h"
#include "checkpoint/synth_writer.h"

namespace slotstream::checkpoint {

// Groups are those of the published model, 64 and 32 in n-gram tables, where they divide the
// inputs; else the largest half of them that does. kUnsupported when none does, kInvalidArgument
// when the fold makes no sense or the config lacks a part that is asked for.
Result<PackedLayout> SyntheticLayout(const ModelConfig& config, const SynthOptions& options);

}  // namespace slotstream::checkpoint
