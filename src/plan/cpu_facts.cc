#include "plan/cpu_facts.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <thread>

#include "kernels/kernels.h"
#include "plan/control_groups.h"

namespace slotstream::plan {
namespace {

int AllowedProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// "32K", "8192K", "16M".
uint64_t SizeOf(const std::string& text) {
  const uint64_t value = LeadingNumber(text).value_or(0);
  if (text.ends_with('K')) return value << 10;
  if (text.ends_with('M')) return value << 20;
  return value;
}

// How many processors a list such as "0-3,8" names.
int CountList(const std::string& list) {
  int count = 0;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string part = list.substr(at, end - at);
    const size_t dash = part.find('-');
    const auto first = LeadingNumber(part);
    const auto last = dash == std::string::npos ? first : LeadingNumber(part.substr(dash + 1));
    if (first && last && *last >= *first) count += static_cast<int>(*last - *first) + 1;
    at = end + 1;
  }
  return std::max(count, 1);
}

std::string VendorName(uint64_t vendor) {
  switch (vendor) {
    case 0x10de:
      return "NVIDIA";
    case 0x1002:
      return "AMD";
    case 0x8086:
      return "Intel";
    default:
      return fmt::format("vendor {:#06x}", vendor);
  }
}

uint64_t Hexadecimal(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 16); }

}  // namespace

CpuFacts ReadCpuFacts(const SystemFiles& files) {
  CpuFacts facts;
  const auto name = FieldText(files.Read("/proc/cpuinfo"), "model name");
  if (name) facts.name = name->substr(std::min(name->find_first_not_of(": \t"), name->size()));
  facts.allowed = AllowedProcessors();
  facts.quota = ReadGroupCores(files);
  facts.cores = facts.allowed;
  if (facts.quota) {
    facts.cores = std::clamp(static_cast<int>(std::ceil(*facts.quota)), 1, facts.allowed);
  }
  const std::string directory = "/sys/devices/system/cpu/cpu0/cache";
  for (const std::string& index : files.List(directory)) {
    const std::string at = directory + "/" + index;
    if (!index.starts_with("index") || files.Read(at + "/type") == "Instruction") continue;
    facts.caches.push_back({.level = static_cast<int>(files.Number(at + "/level").value_or(0)),
                            .bytes = SizeOf(files.Read(at + "/size")),
                            .shared_by = CountList(files.Read(at + "/shared_cpu_list"))});
  }
  for (const kernels::KernelTable* table : kernels::AvailableKernels()) {
    facts.kernels.emplace_back(table->name);
  }
  return facts;
}

std::vector<std::string> ReadGpuNames(const SystemFiles& files) {
  std::vector<std::string> names;
  const std::string nvidia = "/proc/driver/nvidia/gpus";
  for (const std::string& gpu : files.List(nvidia)) {
    const auto model = FieldText(files.Read(nvidia + "/" + gpu + "/information"), "Model:");
    names.push_back(model.value_or("NVIDIA"));
  }
  const bool nvidia_named = !names.empty();
  for (const std::string& card : files.List("/sys/class/drm")) {
    // "card0" is a chip, "card0-HDMI-A-1" one of its sockets.
    if (!card.starts_with("card") || card.find('-') != std::string::npos) continue;
    const std::string device = "/sys/class/drm/" + card + "/device/";
    const uint64_t vendor = Hexadecimal(files.Read(device + "vendor"));
    if (vendor == 0 || (nvidia_named && VendorName(vendor) == "NVIDIA")) continue;
    names.push_back(
        fmt::format("{} {:04x}", VendorName(vendor), Hexadecimal(files.Read(device + "device"))));
  }
  return names;
}

}  // namespace slotstream::plan
