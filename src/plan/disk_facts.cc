#include "plan/disk_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "io/system_error.h"

namespace slotstream::plan {
namespace {

constexpr std::string_view kNetworkFileSystems[] = {
    "nfs",    "nfs4",       "cifs",   "smb3",     "ceph",      "afs",           "9p",
    "lustre", "fuse.sshfs", "beegfs", "virtiofs", "glusterfs", "fuse.glusterfs"};

struct Mount {
  std::string file_system;
  std::string source;
};

// Lines of mountinfo are "36 35 98:0 /root /mount options tags... - type source options".
Mount FindMount(const SystemFiles& files, uint64_t device) {
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  for (const std::string& line : Lines(files.Read("/proc/self/mountinfo"))) {
    const std::vector<std::string> words = Words(line);
    if (words.size() < 3 || words[2] != number) continue;
    const auto dash = std::ranges::find(words, "-");
    if (words.end() - dash >= 3) return {dash[1], dash[2]};
  }
  return {};
}

// The directory of the whole disk in /sys/devices; empty when there is none. A partition's lies in
// its disk's.
std::string DiskDirectory(const SystemFiles& files, const std::string& block) {
  std::string directory = files.Resolve(block);
  if (directory.empty()) return "";
  if (files.Exists(directory + "/partition")) {
    directory.resize(directory.rfind('/'));
  }
  // What device-mapper or RAID puts together is described by its first part.
  const std::vector<std::string> parts = files.List(directory + "/slaves");
  if (!parts.empty()) return DiskDirectory(files, "/sys/class/block/" + parts.front());
  return directory;
}

std::string BlockLink(uint64_t device, const Mount& mount) {
  // Btrfs and overlays have device numbers of their own; some name the block device they lie on.
  if (major(device) == 0 && mount.source.starts_with("/dev/")) {
    return "/sys/class/block/" + std::filesystem::path(mount.source).filename().string();
  }
  return fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
}

DiskKind KindOf(const SystemFiles& files, const std::string& directory, const std::string& name) {
  if (directory.find("/usb") != std::string::npos) return DiskKind::kUsb;
  if (name.starts_with("nvme")) return DiskKind::kNvme;
  if (name.starts_with("vd") || name.starts_with("xvd")) return DiskKind::kVirtual;
  const auto rotating = files.Number(directory + "/queue/rotational");
  if (!rotating) return DiskKind::kUnknown;
  return *rotating == 0 ? DiskKind::kSolidState : DiskKind::kRotating;
}

}  // namespace

std::string_view DiskKindName(DiskKind kind) {
  switch (kind) {
    case DiskKind::kNvme:
      return "NVMe";
    case DiskKind::kSolidState:
      return "SSD";
    case DiskKind::kRotating:
      return "rotating disk";
    case DiskKind::kVirtual:
      return "virtual disk";
    case DiskKind::kUsb:
      return "USB disk";
    case DiskKind::kNetwork:
      return "network file system";
    case DiskKind::kMemory:
      return "memory";
    case DiskKind::kUnknown:
      break;
  }
  return "disk of an unknown kind";
}

DiskFacts DescribeDevice(const SystemFiles& files, uint64_t device) {
  DiskFacts facts;
  facts.device = device;
  const Mount mount = FindMount(files, device);
  facts.file_system = mount.file_system;
  if (std::ranges::find(kNetworkFileSystems, mount.file_system) != std::end(kNetworkFileSystems)) {
    facts.kind = DiskKind::kNetwork;
    return facts;
  }
  if (mount.file_system == "tmpfs" || mount.file_system == "ramfs") {
    facts.kind = DiskKind::kMemory;
    return facts;
  }
  const std::string directory = DiskDirectory(files, BlockLink(device, mount));
  if (directory.empty()) return facts;
  facts.name = std::filesystem::path(directory).filename();
  facts.kind = KindOf(files, directory, facts.name);
  return facts;
}

Result<DiskFacts> ReadDiskFacts(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return std::unexpected(io::SystemError(errno, "look at", path));
  }
  DiskFacts facts = DescribeDevice(SystemFiles(), status.st_dev);
  facts.file_bytes = static_cast<uint64_t>(status.st_size);
  facts.file_modified = status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec;
  return facts;
}

bool SwapsOn(const SystemFiles& files, const DiskFacts& disk, const std::vector<Swap>& swaps) {
  return std::ranges::any_of(swaps, [&](const Swap& swap) {
    if (swap.compressed_memory || disk.name.empty()) return false;
    // A swap file is taken to lie on the disk of the root file system, as it nearly always does.
    const std::string base = std::filesystem::path(swap.device).filename();
    const std::string directory = DiskDirectory(files, "/sys/class/block/" + base);
    if (!directory.empty()) return std::filesystem::path(directory).filename() == disk.name;
    for (const std::string& line : Lines(files.Read("/proc/self/mountinfo"))) {
      const std::vector<std::string> words = Words(line);
      if (words.size() < 5 || words[4] != "/") continue;
      const std::string root = DiskDirectory(files, "/sys/dev/block/" + words[2]);
      return std::filesystem::path(root).filename() == disk.name;
    }
    return false;
  });
}

}  // namespace slotstream::plan
