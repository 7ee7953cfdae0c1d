// A disk's measured rates, kept between runs.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "plan/disk_facts.h"
#include "plan/rates.h"

namespace slotstream::plan {

// What was measured: rates belong to a file on a device, read in records of some size.
struct ProfileKey {
  DiskFacts disk;
  uint64_t record_bytes = 0;
  std::string io;  // the backend's name
};

struct StoredRates {
  DiskRates rates;
  int64_t measured_at = 0;  // seconds since 1970
};

// Disks wear, fill up and get other neighbours.
inline constexpr int64_t kProfileSeconds = int64_t{30} * 24 * 3600;

// The profile kept in `directory`. kNotFound says why there is none to use: never measured, another
// device, file or record size, or older than kProfileSeconds at `now` (seconds since 1970);
// kCorrupt for a file that is no profile.
Result<StoredRates> LoadProfile(const std::string& directory, const ProfileKey& key, int64_t now);

// Creates `directory` if need be. kIo and others of the file system.
Status SaveProfile(const std::string& directory, const ProfileKey& key, const StoredRates& stored);

}  // namespace slotstream::plan
