// Time, handed down so that nothing below engine/ reads a clock of its own.
#pragma once

#include <cstdint>

namespace slotstream {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary start; never goes back. Thread-safe.
  virtual uint64_t NowNanos() const = 0;

  // The system's monotonic clock.
  static const Clock& Steady();
};

}  // namespace slotstream
