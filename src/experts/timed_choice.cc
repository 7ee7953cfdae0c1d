#include "experts/timed_choice.h"

#include <algorithm>
#include <cstddef>

namespace slotstream::experts {
namespace {

uint64_t Median(std::vector<uint64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

// The ways alternate token by token, so that both see the same stretch of text and of the disk.
void TimedChoice::Record(uint64_t nanos) {
  if (!trial_) {
    if (++tokens_ < kBetween) return;
    tokens_ = 0;
    trial_ = true;
    trial_way_ = true;
    return;
  }
  (trial_way_ ? with_ : without_).push_back(nanos);
  trial_way_ = !trial_way_;
  if (++tokens_ < 2 * kTrial) return;
  chosen_ = Median(with_) <= Median(without_);
  with_.clear();
  without_.clear();
  tokens_ = 0;
  trial_ = false;
}

}  // namespace slotstream::experts
