// A memory limit of its own for this process or its children, as on a smaller machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace slotstream::bench {

// A control group (v1 or v2), gone with the object. Making one needs root, as a rule.
class MemoryLimit {
 public:
  // `name` tells the groups of one process apart.
  static Result<std::unique_ptr<MemoryLimit>> Create(const std::string& name, uint64_t bytes);
  // Leaves.
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  // What this process allocates from now on, and children that it starts, count here. Memory that
  // it has already stays where it was counted.
  Status Enter();
  // Back to where the process was at first.
  void Leave();

  // The most that the group has used since the last call, page cache included; 0 where the system
  // does not say.
  uint64_t TakePeak();

 private:
  MemoryLimit(std::string parent, std::string directory, std::string peak)
      : parent_(std::move(parent)), directory_(std::move(directory)), peak_(std::move(peak)) {}

  std::string parent_, directory_, peak_;
};

}  // namespace slotstream::bench
