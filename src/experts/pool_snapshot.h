// What the pool looks like at one moment, for whoever watches it.
#pragma once

#include <cstdint>
#include <vector>

namespace slotstream::experts {

// Needs of one layer, as in StoreStats.
struct LayerCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t swept = 0;
};

// Taken between passes; a copy, so any thread may read it.
struct PoolSnapshot {
  uint32_t slots = 0;
  uint32_t held = 0;  // slots that hold an expert
  uint32_t experts_per_layer = 0;
  std::vector<LayerCounts> layers;
  std::vector<uint8_t> resident;  // [layers, experts_per_layer]: 1 where a slot holds the expert
};

}  // namespace slotstream::experts
