#include "base/clock.h"

#include <chrono>

namespace slotstream {
namespace {

class SteadyClock final : public Clock {
 public:
  uint64_t NowNanos() const override {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
};

}  // namespace

const Clock& Clock::Steady() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace slotstream
