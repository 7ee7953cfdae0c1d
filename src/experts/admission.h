// What a pass needs of a layer, and what of it stays when it was swept past the pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slotstream::experts {

// One expert that a pass needs.
struct ExpertNeed {
  uint32_t expert = 0;
  uint32_t rows = 0;  // of the pass, that chose it
};

// Which of the `missing` (indices of `needs`) a prompt's last sweep of a layer leaves in the pool:
// those of most rows, the first of equals, until the layer has its share of the slots. `hits` of
// the needs are there already. Never more than slots - hits.
std::vector<uint32_t> ChooseAdmissions(std::span<const ExpertNeed> needs,
                                       std::span<const uint32_t> missing, uint32_t hits,
                                       uint32_t slots, uint32_t layers);

}  // namespace slotstream::experts
