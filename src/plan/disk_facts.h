// What kind of disk a file lies on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/memory_facts.h"
#include "plan/system_files.h"

namespace slotstream::plan {

enum class DiskKind {
  kNvme,
  kSolidState,
  kRotating,
  kVirtual,  // a hypervisor's, whose rotational flag says nothing
  kUsb,      // whatever is behind it
  kNetwork,
  kMemory,  // tmpfs, ramfs
  kUnknown,
};
std::string_view DiskKindName(DiskKind kind);

struct DiskFacts {
  uint64_t device = 0;           // st_dev, with which the facts belong together
  std::string file_system = {};  // "ext4", "nfs4", "tmpfs", "overlay"
  std::string name = {};         // of the whole disk, e.g. "nvme0n1"; empty where there is none
  DiskKind kind = DiskKind::kUnknown;
  uint64_t file_bytes = 0;
  int64_t file_modified = 0;  // nanoseconds since 1970
};

// Of the device numbered `device` (st_dev). What cannot be read stays unknown.
DiskFacts DescribeDevice(const SystemFiles& files, uint64_t device);

// Of the file or directory at `path`, on this machine. kNotFound, kIo.
Result<DiskFacts> ReadDiskFacts(const std::string& path);

// Whether swapping would compete with the model for this disk.
bool SwapsOn(const SystemFiles& files, const DiskFacts& disk, const std::vector<Swap>& swaps);

}  // namespace slotstream::plan
