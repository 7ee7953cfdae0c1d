// A program that takes one core, as others do on a user's machine.
#pragma once

#include <atomic>
#include <thread>

namespace slotstream::bench {

// Computes on the last core that this process may use, from construction to destruction. The
// system shares that core between it and the threads under measurement.
class BusyNeighbour {
 public:
  BusyNeighbour();
  ~BusyNeighbour();
  BusyNeighbour(const BusyNeighbour&) = delete;
  BusyNeighbour& operator=(const BusyNeighbour&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace slotstream::bench
