// The limits of this process's control groups, versions 1 and 2, up the whole tree.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "plan/system_files.h"

namespace slotstream::plan {

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

struct GroupMemory {
  uint64_t limit = kUnlimited;  // bytes: the least of all groups on the way up
  uint64_t room = kUnlimited;   // bytes that the tightest group leaves; file pages don't count
  // How often a group hit its limit so far; absent where no group counts that.
  std::optional<uint64_t> events;
  // Share of the last ten seconds in which some task waited for memory, percent; version 2 only.
  std::optional<double> stalled;
};

// What cannot be read does not limit.
GroupMemory ReadGroupMemory(const SystemFiles& files);

// Processors that the groups' time quotas amount to; absent without a quota.
std::optional<double> ReadGroupCores(const SystemFiles& files);

// Whether the process is in a container, by the marks that Docker, Podman and systemd leave.
bool InContainer(const SystemFiles& files);

// The "some avg10" of a pressure file (PSI), percent.
std::optional<double> StalledPercent(std::string_view pressure);

}  // namespace slotstream::plan
