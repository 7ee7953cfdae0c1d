#include "plan/control_groups.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace slotstream::plan {
namespace {

constexpr const char* kMount = "/sys/fs/cgroup";

// A group that the process is in: its controllers ("" for version 2) and its path.
struct Membership {
  std::string controllers;
  std::string path;
};

// Lines are "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
std::vector<Membership> Memberships(const SystemFiles& files) {
  std::vector<Membership> result;
  for (const std::string& line : Lines(files.Read("/proc/self/cgroup"))) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    result.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return result;
}

bool Has(const Membership& group, std::string_view controller) {
  const std::string list = "," + group.controllers + ",";
  return list.find("," + std::string(controller) + ",") != std::string::npos;
}

// Calls visit(directory) for the group at `path` below `mount` and for all around it.
template <typename Visit>
void UpTheTree(const std::string& mount, std::string path, const Visit& visit) {
  for (;;) {
    visit(mount + path);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

// The names of one version's files.
struct MemoryFiles {
  const char* limit;
  const char* usage;
  const char* cache;  // in memory.stat
};
constexpr MemoryFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_cache "};
constexpr MemoryFiles kVersion2{"/memory.max", "/memory.current", "file "};
// Version 1 says "no limit" by the largest number of whole pages.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

void AddGroup(const SystemFiles& files, const std::string& directory, const MemoryFiles& names,
              GroupMemory& memory) {
  const auto limit = files.Number(directory + names.limit);
  if (!limit || *limit >= kNoLimit) return;
  const uint64_t used = files.Number(directory + names.usage).value_or(0);
  const uint64_t cache = Field(files.Read(directory + "/memory.stat"), names.cache).value_or(0);
  const uint64_t fixed = used > cache ? used - cache : 0;
  memory.limit = std::min(memory.limit, *limit);
  memory.room = std::min(memory.room, *limit > fixed ? *limit - fixed : 0);
}

void AddEvents(std::optional<uint64_t> count, GroupMemory& memory) {
  if (count) memory.events = memory.events.value_or(0) + *count;
}

}  // namespace

GroupMemory ReadGroupMemory(const SystemFiles& files) {
  GroupMemory memory;
  const std::string base = kMount;
  for (const Membership& group : Memberships(files)) {
    if (group.controllers.empty()) {
      UpTheTree(base, group.path, [&](const std::string& directory) {
        AddGroup(files, directory, kVersion2, memory);
        const std::string events = files.Read(directory + "/memory.events");
        AddEvents(Field(events, "high "), memory);
        AddEvents(Field(events, "max "), memory);
      });
      memory.stalled = StalledPercent(files.Read(base + group.path + "/memory.pressure"));
    } else if (Has(group, "memory")) {
      UpTheTree(base + "/memory", group.path, [&](const std::string& directory) {
        AddGroup(files, directory, kVersion1, memory);
        AddEvents(files.Number(directory + "/memory.failcnt"), memory);
      });
    }
  }
  return memory;
}

std::optional<double> ReadGroupCores(const SystemFiles& files) {
  std::optional<double> cores;
  const auto add = [&](std::optional<uint64_t> quota, std::optional<uint64_t> period) {
    if (!quota || !period || *period == 0) return;
    const double allowed = static_cast<double>(*quota) / static_cast<double>(*period);
    cores = std::min(cores.value_or(allowed), allowed);
  };
  const std::string base = kMount;
  for (const Membership& group : Memberships(files)) {
    if (group.controllers.empty()) {
      UpTheTree(base, group.path, [&](const std::string& directory) {
        const std::vector<std::string> words = Words(files.Read(directory + "/cpu.max"));
        if (words.size() == 2) add(LeadingNumber(words[0]), LeadingNumber(words[1]));
      });
    } else if (Has(group, "cpu")) {
      UpTheTree(base + "/cpu", group.path, [&](const std::string& directory) {
        add(files.Number(directory + "/cpu.cfs_quota_us"),
            files.Number(directory + "/cpu.cfs_period_us"));
      });
    }
  }
  return cores;
}

bool InContainer(const SystemFiles& files) {
  if (files.Exists("/.dockerenv") || files.Exists("/run/.containerenv")) return true;
  return files.Read("/proc/1/environ").find("container=") != std::string::npos;
}

std::optional<double> StalledPercent(std::string_view pressure) {
  const auto some = FieldText(pressure, "some avg10=");
  if (!some) return std::nullopt;
  return std::strtod(some->c_str(), nullptr);
}

}  // namespace slotstream::plan
