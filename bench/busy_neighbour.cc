#include "bench/busy_neighbour.h"

#include <sched.h>

namespace slotstream::bench {
namespace {

void StayOnLastCore() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int core = CPU_SETSIZE - 1; core >= 0; --core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace

BusyNeighbour::BusyNeighbour()
    : thread_([this] {
        StayOnLastCore();
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      }) {}

BusyNeighbour::~BusyNeighbour() {
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

}  // namespace slotstream::bench
