// Geometries for synthetic checkpoints: texts of config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace slotstream::checkpoint {

// The published model's config.json, its vision tower and draft head included.
std::string PublishedGeometry();

// `json` with its first `layers` layers; the n-gram memory of layers that are left out goes with
// them. `name` (a path) appears in errors. kInvalidArgument when there are not as many layers;
// kCorrupt when `json` is no config.json.
Result<std::string> WithLayers(std::string_view json, std::string_view name, uint32_t layers);

}  // namespace slotstream::checkpoint
