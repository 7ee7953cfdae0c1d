// Ctrl-C as a flag.
#pragma once

#include <atomic>

namespace slotstream::cli {

// What an interrupted command returns: 128 + SIGINT, as shells count.
inline constexpr int kExitInterrupted = 130;

// While one lives, SIGINT and SIGTERM set a flag instead of ending the process. A signal handler
// can reach nothing but a global, so only one may live at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const std::atomic<bool>& flag() const;
  bool interrupted() const { return flag().load(); }
  void Reset();
};

}  // namespace slotstream::cli
