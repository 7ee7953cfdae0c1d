// Which servers of this user run: each has a small file that `ps`, `stop` and `launch` read.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace slotstream::cli {

struct ServerRecord {
  int pid = 0;
  // Of the process, in clock ticks since boot (/proc/PID/stat), and which boot. With the pid they
  // name one process for ever: pids come again.
  uint64_t start_ticks = 0;
  std::string boot = {};
  std::string host = {};  // as it was bound
  uint16_t port = 0;
  std::string directory = {};  // of the model
  int64_t started = 0;         // Unix seconds
  int grace_seconds = 0;       // that it gives a running answer when it is stopped
};

// The file of this process, as long as it lives. A process that is killed leaves its file behind,
// which the next reader takes away.
class RunFile {
 public:
  // `record` less pid, start_ticks and boot, which are this process's. Errors: those of
  // RuntimeDirectory and of writing.
  static Result<RunFile> Write(ServerRecord record);
  RunFile(RunFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  RunFile& operator=(RunFile&&) = delete;
  ~RunFile();

 private:
  explicit RunFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Those that run, by port. The files of those that were killed are removed; what is no record, or
// one of another version, is passed over.
Result<std::vector<ServerRecord>> RunningServers();

// True while the very process that wrote the record lives.
bool IsAlive(const ServerRecord& record);

}  // namespace slotstream::cli
