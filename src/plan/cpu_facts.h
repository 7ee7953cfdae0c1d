// Processors and other chips.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/system_files.h"

namespace slotstream::plan {

struct Cache {
  int level = 0;
  uint64_t bytes = 0;
  int shared_by = 1;  // hardware threads
};

struct CpuFacts {
  std::string name;                  // as the system calls it; empty when it does not
  int cores = 1;                     // to compute with: allowed by affinity and quota
  int allowed = 1;                   // by affinity
  std::optional<double> quota;       // processors' worth of time, by control groups
  std::vector<Cache> caches;         // of the first processor: data and unified ones
  std::vector<std::string> kernels;  // names of the kernels that can run here, slowest first
};

CpuFacts ReadCpuFacts(const SystemFiles& files);

// Names of graphics chips, for people: nothing here computes on them.
std::vector<std::string> ReadGpuNames(const SystemFiles& files);

}  // namespace slotstream::plan
