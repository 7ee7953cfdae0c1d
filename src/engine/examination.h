// Everything that `doctor` says: machine, disk, rates, plan, forecasts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine_registry.h"
#include "io/backend.h"
#include "plan/disk_facts.h"
#include "plan/forecast.h"
#include "plan/machine.h"
#include "plan/plan.h"

namespace slotstream::engine {

struct ExaminationOptions {
  std::string directory;   // of a checkpoint; empty: only the published model's sizes
  bool published = false;  // plan and forecast for the published model, with `directory`'s disk
  plan::Wishes wishes;
  io::BackendKind io = io::BackendKind::kAuto;
  std::string kernels = "auto";
  std::string system_root;         // see plan::ReadMachineFacts
  std::string profile_directory;   // see plan::LoadProfile; empty: nothing is kept
  std::string registry_directory;  // see EngineRegistry; empty: nobody else is known
  bool measure = false;            // measure the disk anew, and longer
  std::optional<uint64_t> memory;  // a machine of so many bytes instead of this one
  std::optional<double> disk;      // a disk of so many bytes/s instead of the model's
  int64_t now = 0;                 // seconds since 1970
  // Makes the reads' backend; empty means io::MakeBackend.
  std::function<Result<std::unique_ptr<io::ReadBackend>>(size_t depth)> make_backend;
};

enum class RatesSource { kNone, kMeasured, kProfile, kAssumed };

struct SimulatedMachine {
  uint64_t memory = 0;  // bytes
  Result<plan::Plan> plan = plan::Plan{};
  // With the disk of the examination, if it has one, then with each of kSimulatedDisks.
  std::vector<plan::Forecast> forecasts;
};

inline constexpr uint64_t kSimulatedMemories[] = {8'000'000'000,  12'000'000'000, 16'000'000'000,
                                                  24'000'000'000, 32'000'000'000, 48'000'000'000,
                                                  64'000'000'000, 96'000'000'000, 128'000'000'000};
inline constexpr double kSimulatedDisks[] = {0.5e9, 1.5e9, 3.5e9, 7e9, 14e9};

struct Examination {
  plan::MachineFacts machine;  // simulated where the options say so
  std::vector<RunningEngine> engines;
  std::string kernels;
  std::string io;
  uint64_t record_bytes = 0;
  std::optional<plan::DiskFacts> disk;
  RatesSource source = RatesSource::kNone;
  int64_t measured_at = 0;  // of kMeasured and kProfile, seconds since 1970
  plan::DiskRates disk_rates;
  plan::ComputeRates compute;
  Result<plan::Plan> plan = plan::Plan{};
  std::optional<plan::Forecast> forecast;  // with a plan and disk rates
  std::vector<std::string> warnings;
  std::vector<SimulatedMachine> table;
};

// Takes two to four seconds, with `measure` some fifteen. Errors: those of opening the checkpoint
// and of reading it; a plan that does not fit is none.
Result<Examination> Examine(const ExaminationOptions& options, const Clock& clock);

// A machine with so much memory, of which the system and a desktop use some.
plan::MachineFacts SimulatedFacts(const plan::MachineFacts& machine, uint64_t memory);

}  // namespace slotstream::engine
