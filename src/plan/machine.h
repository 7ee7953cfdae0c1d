// What the machine has: facts the planner starts from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace slotstream::plan {

struct MachineFacts {
  uint64_t memory_available = 0;  // bytes that can be used without pushing others out
  int cores = 1;                  // that this process may run on
};

// Reads /proc/meminfo, the memory limits of this process's control groups (v1 and v2, up the tree)
// and the processor affinity. `root` is put before every path, for tests. What cannot be read does
// not limit.
MachineFacts ReadMachineFacts(const std::string& root = "");

}  // namespace slotstream::plan
