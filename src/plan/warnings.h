// What a user should know about his machine before he blames the program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/disk_facts.h"
#include "plan/forecast.h"
#include "plan/machine.h"

namespace slotstream::plan {

struct WarningFacts {
  const MachineFacts& machine;
  const DiskFacts* disk = nullptr;   // null: no model on a disk
  bool swap_on_disk = false;         // see SwapsOn
  const DiskRates* rates = nullptr;  // null: not known
  const Plan* plan = nullptr;        // null: none fits
  const Forecast* forecast = nullptr;
};

// Most serious first; each a sentence that says what it costs and what helps.
std::vector<std::string> Warnings(const WarningFacts& facts);

// Why the program's memory cannot be kept from being swapped out, if that matters: there is swap,
// and less than `bytes` may be locked.
std::optional<std::string> LockWarning(const MachineFacts& machine, uint64_t bytes);

}  // namespace slotstream::plan
