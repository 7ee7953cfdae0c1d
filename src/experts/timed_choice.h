// Whether doing something makes tokens faster: tried both ways now and then, and decided by time.
#pragma once

#include <cstdint>
#include <vector>

namespace slotstream::experts {

// For look-ahead, which pays where the disk idles while layers compute, and costs where reads in
// vain compete with needed ones (a throttled or saturated disk) or the processor has nothing to
// spare. A trial is some tokens one way and as many the other; the way with the lower median wins
// until the next trial. Not thread-safe.
class TimedChoice {
 public:
  // The way of the next token.
  bool use() const { return trial_ ? trial_way_ : chosen_; }
  // How long that token took.
  void Record(uint64_t nanos);

  // The tokens of one way in a trial, and between two trials.
  static constexpr uint32_t kTrial = 12;
  static constexpr uint32_t kBetween = 200;

 private:
  bool chosen_ = true;
  bool trial_ = true;
  bool trial_way_ = true;
  uint32_t tokens_ = 0;  // of the current stretch
  std::vector<uint64_t> with_, without_;
};

}  // namespace slotstream::experts
