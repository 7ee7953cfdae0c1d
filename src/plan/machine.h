// What the machine has: facts the planner starts from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/cpu_facts.h"
#include "plan/memory_facts.h"

namespace slotstream::plan {

// The planner needs the first five; the others are for people.
struct MachineFacts {
  uint64_t memory_available = 0;  // bytes that can be used without pushing others out
  uint64_t memory_total = 0;      // bytes of the machine or its control group; 0: not known
  uint64_t memory_promised = 0;   // bytes of the machine that engines running on it planned with
  uint64_t group_promised = 0;    // of these, bytes of engines in this process's control groups
  int cores = 1;                  // to compute with
  MemoryFacts memory = {};
  CpuFacts cpu = {};
  std::vector<std::string> gpus = {};
  bool container = false;
};

// Reads memory, control groups (v1 and v2, up the tree), processors and chips. `root` is put before
// every path, for tests. What cannot be read does not limit.
MachineFacts ReadMachineFacts(const std::string& root = "");

}  // namespace slotstream::plan
