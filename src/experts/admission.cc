#include "experts/admission.h"

#include <algorithm>
#include <functional>

namespace slotstream::experts {

std::vector<uint32_t> ChooseAdmissions(std::span<const ExpertNeed> needs,
                                       std::span<const uint32_t> missing, uint32_t hits,
                                       uint32_t slots, uint32_t layers) {
  const uint32_t share = std::max(1u, slots / layers);
  if (hits >= share) return {};
  std::vector<uint32_t> hottest(missing.begin(), missing.end());
  std::ranges::stable_sort(hottest, std::greater(),
                           [&](uint32_t need) { return needs[need].rows; });
  hottest.resize(std::min<size_t>(hottest.size(), share - hits));
  return hottest;
}

}  // namespace slotstream::experts
