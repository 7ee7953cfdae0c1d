// What is known about the machine's memory at one moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/control_groups.h"
#include "plan/system_files.h"

namespace slotstream::plan {

struct Swap {
  std::string device;  // "/dev/sda2", "/swapfile", "/dev/zram0"
  uint64_t bytes = 0;
  bool compressed_memory = false;  // zram
};

struct MemoryFacts {
  uint64_t total = kUnlimited;      // bytes of the machine, or of its tightest control group
  uint64_t machine_total = 0;       // bytes of the machine; 0 when unknown
  uint64_t available = kUnlimited;  // bytes that can be used without pushing others out
  uint64_t machine_available = kUnlimited;  // the same without the control groups' limits
  GroupMemory group;
  std::optional<double> stalled;  // PSI of the whole machine, "some avg10", percent
  std::vector<Swap> swaps;
  uint64_t lock_limit = kUnlimited;  // bytes that the process may lock (RLIMIT_MEMLOCK)
  std::string huge_pages;            // mode of transparent ones: "always", "madvise", "never", ""
};

// What cannot be read does not limit. `lock_limit` is the caller's: it is no file.
MemoryFacts ReadMemoryFacts(const SystemFiles& files);

// Bytes that this process may lock, kUnlimited for one that may lock anything.
uint64_t ReadLockLimit();

}  // namespace slotstream::plan
