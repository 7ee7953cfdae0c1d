#include "plan/memory_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace slotstream::plan {
namespace {

// "always [madvise] never" is "madvise".
std::string Chosen(const std::string& modes) {
  const size_t open = modes.find('[');
  const size_t close = modes.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return "";
  return modes.substr(open + 1, close - open - 1);
}

std::vector<Swap> ReadSwaps(const SystemFiles& files) {
  std::vector<Swap> swaps;
  // A heading, then "device type KiB used priority".
  for (const std::string& line : Lines(files.Read("/proc/swaps"))) {
    const std::vector<std::string> words = Words(line);
    if (words.size() < 3 || words[0] == "Filename") continue;
    swaps.push_back({.device = words[0],
                     .bytes = LeadingNumber(words[2]).value_or(0) * 1024,
                     .compressed_memory = words[0].find("/zram") != std::string::npos});
  }
  return swaps;
}

}  // namespace

MemoryFacts ReadMemoryFacts(const SystemFiles& files) {
  MemoryFacts facts;
  const std::string info = files.Read("/proc/meminfo");
  facts.machine_total = Field(info, "MemTotal:").value_or(0) * 1024;
  if (const auto available = Field(info, "MemAvailable:")) {
    facts.machine_available = *available * 1024;
  }
  facts.group = ReadGroupMemory(files);
  if (facts.machine_total > 0) facts.total = facts.machine_total;
  facts.total = std::min(facts.total, facts.group.limit);
  facts.available = std::min(facts.machine_available, facts.group.room);
  facts.stalled = StalledPercent(files.Read("/proc/pressure/memory"));
  facts.swaps = ReadSwaps(files);
  facts.huge_pages = Chosen(files.Read("/sys/kernel/mm/transparent_hugepage/enabled"));
  return facts;
}

uint64_t ReadLockLimit() {
  rlimit limit = {};
  // Root may lock what it likes.
  if (geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return kUnlimited;
  return limit.rlim_cur == RLIM_INFINITY ? kUnlimited : limit.rlim_cur;
}

}  // namespace slotstream::plan
