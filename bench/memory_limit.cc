#include "bench/memory_limit.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace slotstream::bench {
namespace {

// The two versions of control groups: where they are mounted, how their lines in
// /proc/self/cgroup begin, and what their files are called.
struct Version {
  const char* mount;
  const char* line;
  const char* limit;
  const char* peak;
};
constexpr Version kVersions[] = {
    {"/sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
    {"/sys/fs/cgroup", "0::", "memory.max", "memory.peak"},
};

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

// The group that this process is in now.
std::string OwnGroup(const Version& version) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t at = line.find(version.line);
    if (at != std::string::npos) return version.mount + line.substr(line.rfind(':') + 1);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<MemoryLimit>> MemoryLimit::Create(const std::string& name, uint64_t bytes) {
  for (const Version& version : kVersions) {
    std::string parent = OwnGroup(version);
    if (parent.empty() || access((parent + "/" + version.limit).c_str(), F_OK) != 0) continue;
    if (parent.back() == '/') parent.pop_back();
    const std::string directory = fmt::format("{}/slotstream-bench-{}-{}", parent, name, getpid());
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
      return Fail(ErrorCode::kIo,
                  fmt::format("cannot make the control group {}: {}; a memory limit needs root",
                              directory, std::generic_category().message(errno)));
    }
    auto limit = std::unique_ptr<MemoryLimit>(
        new MemoryLimit(parent, directory, directory + "/" + version.peak));
    if (WriteFile(directory + "/" + version.limit, std::to_string(bytes))) return limit;
    return Fail(ErrorCode::kIo,
                fmt::format("the control group {} takes no limit of {} bytes", directory, bytes));
  }
  return Fail(ErrorCode::kUnsupported,
              "this system has no control groups for memory, so a limit cannot be kept");
}

Status MemoryLimit::Enter() {
  if (WriteFile(directory_ + "/cgroup.procs", std::to_string(getpid()))) return {};
  return Fail(ErrorCode::kIo,
              fmt::format("the control group {} does not take this process", directory_));
}

void MemoryLimit::Leave() { WriteFile(parent_ + "/cgroup.procs", std::to_string(getpid())); }

MemoryLimit::~MemoryLimit() {
  Leave();
  rmdir(directory_.c_str());
}

uint64_t MemoryLimit::TakePeak() {
  uint64_t peak = 0;
  std::ifstream(peak_) >> peak;
  WriteFile(peak_, "0");
  return peak;
}

}  // namespace slotstream::bench
