// Which engines run on this machine and what memory each has planned with, so that two don't plan
// with the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file_lock.h"
#include "plan/machine.h"

namespace slotstream::engine {

struct RunningEngine {
  int64_t pid = 0;
  uint64_t planned = 0;     // bytes
  uint64_t resident = 0;    // bytes that the system says it uses
  bool same_group = false;  // in this process's control groups
};

// Sets what `engines` planned with and have not taken from the available memory yet.
void SetPromised(const std::vector<RunningEngine>& engines, plan::MachineFacts& machine);

// An engine's own entry; others see it as long as this lives. The system ends it with the process,
// however that dies: an entry counts while its lock is held, not while its process id is in use.
class EngineEntry {
 public:
  ~EngineEntry();
  EngineEntry(const EngineEntry&) = delete;
  EngineEntry& operator=(const EngineEntry&) = delete;

 private:
  friend class EngineRegistry;
  EngineEntry(std::unique_ptr<io::FileLock> lock, std::string plan_file)
      : lock_(std::move(lock)), plan_file_(std::move(plan_file)) {}
  std::unique_ptr<io::FileLock> lock_;
  std::string plan_file_;
};

// A directory with two files per engine, read and written under a lock: who holds an
// EngineRegistry plans alone. One user's engines see each other.
class EngineRegistry {
 public:
  // Makes the directory (for its owner alone) if need be, waits up to some seconds for whoever
  // plans right now, removes entries of the dead and reads the others. kInvalidArgument for a
  // directory that is another user's; kResourceLimit when the lock is not to be had; kIo.
  static Result<EngineRegistry> Open(const std::string& directory);

  const std::vector<RunningEngine>& engines() const { return engines_; }
  // Adds this engine with a plan of so many bytes.
  Result<std::unique_ptr<EngineEntry>> Enter(uint64_t planned);

 private:
  EngineRegistry(std::string directory, std::unique_ptr<io::FileLock> lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}
  void ReadEntries();

  std::string directory_;
  std::unique_ptr<io::FileLock> lock_;
  std::vector<RunningEngine> engines_;
};

}  // namespace slotstream::engine
