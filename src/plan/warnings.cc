#include "plan/warnings.h"

#include <fmt/format.h>

namespace slotstream::plan {
namespace {

// Replies of the published model in 16 GB wait for the disk nearly all the time below this.
constexpr double kSlowDisk = 1e9;
constexpr double kStalledPercent = 5;

void DiskWarnings(const WarningFacts& facts, std::vector<std::string>& out) {
  const DiskFacts& disk = *facts.disk;
  switch (disk.kind) {
    case DiskKind::kUsb:
      out.push_back(
          "the model is on a USB disk: cable, port and case decide how fast it is, and "
          "some pause when warm; measure again after minutes of use");
      break;
    case DiskKind::kNetwork:
      out.push_back(
          fmt::format("the model is on a network file system ({}): replies are as slow "
                      "as the network; copy it to a local SSD",
                      disk.file_system));
      break;
    case DiskKind::kRotating:
      out.push_back(
          "the model is on a rotating disk: each missing expert waits for the head; an "
          "SSD is ten times as fast or more");
      break;
    case DiskKind::kMemory:
      out.push_back(
          fmt::format("the model lies in memory ({}): its files take what expert slots "
                      "could use; put it on a disk",
                      disk.file_system));
      break;
    default:
      break;
  }
  if (disk.file_system == "overlay") {
    out.push_back(
        "the model is in a container's own file system: a volume is faster and survives "
        "the container");
  }
  if (facts.swap_on_disk) {
    out.push_back(
        "swap is on the model's disk: when memory is short, swapping and reading experts "
        "slow each other down");
  }
}

}  // namespace

std::optional<std::string> LockWarning(const MachineFacts& machine, uint64_t bytes) {
  if (machine.memory.swaps.empty() || machine.memory.lock_limit >= bytes) return std::nullopt;
  return fmt::format(
      "this machine has swap, and this process may lock only {} of memory "
      "(RLIMIT_MEMLOCK), so that weights may be swapped out when memory is short; "
      "`ulimit -l unlimited`, or LimitMEMLOCK=infinity for a service, prevents it",
      FormatBytes(machine.memory.lock_limit));
}

std::vector<std::string> Warnings(const WarningFacts& facts) {
  std::vector<std::string> out;
  const MachineFacts& machine = facts.machine;
  if (facts.rates != nullptr && facts.rates->full.typical < kSlowDisk) {
    std::string text = fmt::format("the disk is slow: {}/s",
                                   FormatBytes(static_cast<uint64_t>(facts.rates->full.typical)));
    if (facts.forecast != nullptr) {
      text += fmt::format("; a reply waits for it {:.0f} % of the time",
                          100 * facts.forecast->disk_share);
    }
    out.push_back(text);
  }
  if (facts.disk != nullptr) DiskWarnings(facts, out);
  const MemoryFacts& memory = machine.memory;
  if (memory.group.limit < memory.machine_total) {
    out.push_back(fmt::format("a control group limits memory to {} of the machine's {}{}",
                              FormatBytes(memory.group.limit), FormatBytes(memory.machine_total),
                              machine.container ? ": the container's limit can be raised" : ""));
  }
  if (machine.cpu.quota && *machine.cpu.quota < machine.cpu.allowed) {
    out.push_back(fmt::format("a control group limits computing to {:.1f} of {} processors",
                              *machine.cpu.quota, machine.cpu.allowed));
  }
  if (memory.stalled && *memory.stalled >= kStalledPercent) {
    out.push_back(
        fmt::format("programs on this machine wait for memory {:.0f} % of the time right "
                    "now",
                    *memory.stalled));
  }
  if (facts.plan != nullptr) {
    if (auto lock = LockWarning(machine, facts.plan->total)) out.push_back(std::move(*lock));
  }
  return out;
}

}  // namespace slotstream::plan
