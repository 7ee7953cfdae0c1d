// A checkpoint without bytes: what can be known of one from its config.json alone.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace slotstream::checkpoint {

// The packed form that a model of this config would have: sizes of all parts, to plan with. It has
// no files, so that loading a part fails with kUnsupported and records have no pieces. `json` is
// the text of config.json, `name` (a path) appears in errors: those of ParseConfig and
// SyntheticLayout.
Result<std::unique_ptr<Checkpoint>> OutlineOf(std::string_view json, std::string_view name);

}  // namespace slotstream::checkpoint
