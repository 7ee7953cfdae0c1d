#include "plan/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>

#include "io/file.h"

namespace slotstream::plan {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr size_t kMaxFileBytes = 1 << 20;

std::string Read(const std::string& path) {
  return io::ReadWholeFile(path, kMaxFileBytes).value_or("");
}

// The number that starts `text` (after blanks); nothing when there is none, as in "max".
std::optional<uint64_t> Number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The number after `key` in a file of lines such as "MemAvailable:   123 kB" or "anon 123".
std::optional<uint64_t> Field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return Number(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

// What one control group leaves: its limit less its use, where reclaimable file pages don't count.
uint64_t GroupRoom(const std::string& directory, const char* limit_file, const char* usage_file,
                   const char* cache_key) {
  const auto limit = Number(Read(directory + "/" + limit_file));
  if (!limit) return kUnlimited;
  const uint64_t used = Number(Read(directory + "/" + usage_file)).value_or(0);
  const uint64_t cache = Field(Read(directory + "/memory.stat"), cache_key).value_or(0);
  const uint64_t fixed = used > cache ? used - cache : 0;
  return *limit > fixed ? *limit - fixed : 0;
}

// The least room of the group at `path` below `mount` and of all groups around it.
uint64_t TreeRoom(const std::string& mount, std::string path, const char* limit_file,
                  const char* usage_file, const char* cache_key) {
  uint64_t room = kUnlimited;
  for (;;) {
    room = std::min(room, GroupRoom(mount + path, limit_file, usage_file, cache_key));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return room;
    path.resize(slash);
  }
}

uint64_t ControlGroupRoom(const std::string& root) {
  uint64_t room = kUnlimited;
  std::istringstream lines(Read(root + "/proc/self/cgroup"));
  // Lines are "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const std::string base = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      room = std::min(room, TreeRoom(base, path, "memory.max", "memory.current", "file "));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      room = std::min(room, TreeRoom(base + "/memory", path, "memory.limit_in_bytes",
                                     "memory.usage_in_bytes", "total_cache "));
    }
  }
  return room;
}

int AllowedCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

MachineFacts ReadMachineFacts(const std::string& root) {
  MachineFacts facts;
  const auto available = Field(Read(root + "/proc/meminfo"), "MemAvailable:");
  facts.memory_available =
      std::min(available ? *available * 1024 : kUnlimited, ControlGroupRoom(root));
  facts.cores = AllowedCores();
  return facts;
}

}  // namespace slotstream::plan
