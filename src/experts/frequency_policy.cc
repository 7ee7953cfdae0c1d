#include "experts/frequency_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace slotstream::experts {

FrequencyPolicy::FrequencyPolicy(uint32_t slots, uint32_t entries, double half_life)
    : half_life_(half_life),
      score_(entries, -std::numeric_limits<double>::infinity()),
      entry_of_(slots, kNone),
      key_(slots) {}

void FrequencyPolicy::Filled(uint32_t slot, uint32_t entry) {
  if (entry_of_[slot] == kNone) order_.emplace(key_[slot], slot);
  entry_of_[slot] = entry;
  Used(slot);
}

void FrequencyPolicy::Used(uint32_t slot) {
  double& score = score_[entry_of_[slot]];
  now_ += 1 / half_life_;
  const double larger = std::max(score, now_);
  score = larger + std::log2(1 + std::exp2(std::min(score, now_) - larger));
  auto node = order_.extract({key_[slot], slot});
  node.value().first = key_[slot] = score;
  order_.insert(std::move(node));
}

uint32_t FrequencyPolicy::ChooseVictim(const std::function<bool(uint32_t)>& evictable) {
  const auto least = std::ranges::find_if(
      order_, [&](const std::pair<double, uint32_t>& at) { return evictable(at.second); });
  const uint32_t slot = least->second;
  order_.erase(least);
  entry_of_[slot] = kNone;
  return slot;
}

void FrequencyPolicy::Moved(uint32_t from, uint32_t to) {
  order_.erase({key_[from], from});
  key_[to] = key_[from];
  entry_of_[to] = std::exchange(entry_of_[from], kNone);
  order_.emplace(key_[to], to);
}

}  // namespace slotstream::experts
