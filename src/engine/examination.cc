#include "engine/examination.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/geometry.h"
#include "checkpoint/outline.h"
#include "checkpoint/packed_layout.h"
#include "io/read_queue.h"
#include "plan/disk_profile.h"
#include "plan/warnings.h"

namespace slotstream::engine {
namespace {

using checkpoint::Checkpoint;

// Of the disk's reads: sixteen records in pieces of 256 KiB and more.
constexpr size_t kDepth = 256;
// How long measurements take, and how many times longer when they are asked for.
constexpr double kDiskSeconds = 1.2;
constexpr double kComputeSeconds = 0.6;
constexpr double kReadCostSeconds = 0.4;
constexpr double kThorough = 6;
// More than most caches hold, and little beside the smallest machine's memory.
constexpr size_t kTimingBytes = size_t{256} << 20;
constexpr uint64_t kTimingShare = 8;
// What a simulated machine's system and desktop use.
constexpr uint64_t kSystemBytes = 1'500'000'000;

class Examiner {
 public:
  Examiner(const ExaminationOptions& options, const Clock& clock)
      : options_(options), clock_(clock) {}

  Result<Examination> Run() {
    SS_RETURN_IF_ERROR(OpenModel());
    const Checkpoint& model = options_.published || !stored_ ? *published_ : *stored_;
    result_.record_bytes = model.experts().shape().record_bytes();
    ReadMachine();
    SS_RETURN_IF_ERROR(SelectCompute());
    SS_RETURN_IF_ERROR(RateDisk());
    SS_RETURN_IF_ERROR(RateCompute(model));
    const plan::ModelShape shape = plan::ShapeOf(model);
    result_.plan = plan::MakePlan(model, result_.machine, options_.wishes);
    if (result_.plan && result_.source != RatesSource::kNone) {
      result_.forecast =
          plan::MakeForecast(shape, *result_.plan, result_.disk_rates, result_.compute);
    }
    Warn();
    Simulate(model, shape);
    return std::move(result_);
  }

 private:
  Status OpenModel() {
    if (!options_.directory.empty()) {
      SS_ASSIGN_OR_RETURN(stored_, Checkpoint::Open(options_.directory));
    }
    if (options_.published || !stored_) {
      SS_ASSIGN_OR_RETURN(published_, checkpoint::OutlineOf(checkpoint::PublishedGeometry(),
                                                            "the published model"));
    }
    return {};
  }

  void ReadMachine() {
    result_.machine = plan::ReadMachineFacts(options_.system_root);
    if (!options_.registry_directory.empty()) {
      // Without a registry nobody else is known, which is no reason to say nothing.
      if (auto registry = EngineRegistry::Open(options_.registry_directory)) {
        result_.engines = registry->engines();
        SetPromised(result_.engines, result_.machine);
      }
    }
    if (options_.memory) result_.machine = SimulatedFacts(result_.machine, *options_.memory);
  }

  double Seconds(double quick) const { return options_.measure ? kThorough * quick : quick; }

  Status SelectCompute() {
    SS_ASSIGN_OR_RETURN(kernels_, kernels::SelectKernels(options_.kernels));
    result_.kernels = kernels_->name;
    threads_.emplace(options_.wishes.threads.value_or(result_.machine.cores));
    // Of this machine, simulated or not.
    const uint64_t available = plan::ReadMachineFacts(options_.system_root).memory_available;
    timing_bytes_ = std::min<uint64_t>(kTimingBytes, available / kTimingShare);
    return {};
  }

  Status RateDisk() {
    if (stored_) {
      const std::string file = stored_->form() == checkpoint::Form::kPacked
                                   ? "/" + std::string(checkpoint::kExpertsFile)
                                   : "";
      SS_ASSIGN_OR_RETURN(result_.disk, plan::ReadDiskFacts(options_.directory + file));
    }
    if (options_.disk) {
      result_.source = RatesSource::kAssumed;
      result_.disk_rates = plan::AssumedDisk(*options_.disk, result_.record_bytes);
      return {};
    }
    if (!stored_) return {};
    auto backend = options_.make_backend ? options_.make_backend(kDepth)
                                         : io::MakeBackend(options_.io, kDepth, nullptr);
    if (!backend) return std::unexpected(std::move(backend).error());
    result_.io = (*backend)->name();
    const plan::ProfileKey key{.disk = *result_.disk,
                               .record_bytes = stored_->experts().shape().record_bytes(),
                               .io = result_.io};
    const bool keep = !options_.profile_directory.empty();
    if (keep && !options_.measure) {
      if (auto stored = plan::LoadProfile(options_.profile_directory, key, options_.now)) {
        result_.source = RatesSource::kProfile;
        result_.measured_at = stored->measured_at;
        result_.disk_rates = stored->rates;
        return {};
      }
    }
    io::ReadQueue queue(std::move(*backend), clock_);
    SS_ASSIGN_OR_RETURN(
        result_.disk_rates,
        plan::MeasureDisk(*stored_, queue, clock_, Seconds(kDiskSeconds), clock_.NowNanos()));
    SS_ASSIGN_OR_RETURN(
        result_.disk_rates.core_seconds,
        plan::MeasureReadCost(*stored_, queue, *kernels_, options_.wishes.compute, *threads_,
                              clock_, timing_bytes_, Seconds(kReadCostSeconds)));
    result_.source = RatesSource::kMeasured;
    result_.measured_at = options_.now;
    if (keep) {
      Status saved =
          plan::SaveProfile(options_.profile_directory, key,
                            {.rates = result_.disk_rates, .measured_at = result_.measured_at});
      if (!saved) result_.warnings.push_back(saved.error().message);
    }
    return {};
  }

  Status RateCompute(const Checkpoint& model) {
    SS_ASSIGN_OR_RETURN(result_.compute,
                        plan::MeasureCompute(model, *kernels_, options_.wishes.compute, *threads_,
                                             clock_, timing_bytes_, Seconds(kComputeSeconds)));
    return {};
  }

  void Warn() {
    const bool rated = result_.source != RatesSource::kNone;
    const std::vector<std::string> warnings = plan::Warnings(
        {.machine = result_.machine,
         .disk = result_.disk ? &*result_.disk : nullptr,
         .swap_on_disk = result_.disk && plan::SwapsOn(plan::SystemFiles(options_.system_root),
                                                       *result_.disk, result_.machine.memory.swaps),
         .rates = rated ? &result_.disk_rates : nullptr,
         .plan = result_.plan ? &*result_.plan : nullptr,
         .forecast = result_.forecast ? &*result_.forecast : nullptr});
    result_.warnings.insert(result_.warnings.begin(), warnings.begin(), warnings.end());
  }

  void Simulate(const Checkpoint& model, const plan::ModelShape& shape) {
    for (const uint64_t memory : kSimulatedMemories) {
      SimulatedMachine& machine = result_.table.emplace_back();
      machine.memory = memory;
      plan::Wishes wishes = options_.wishes;
      // The table is about what they would be.
      wishes.memory_bytes.reset();
      wishes.slots.reset();
      machine.plan = plan::MakePlan(model, SimulatedFacts(result_.machine, memory), wishes);
      if (!machine.plan) continue;
      const auto add = [&](const plan::DiskRates& rates) {
        machine.forecasts.push_back(
            plan::MakeForecast(shape, *machine.plan, rates, result_.compute));
      };
      if (result_.source != RatesSource::kNone) add(result_.disk_rates);
      for (const double disk : kSimulatedDisks) {
        plan::DiskRates rates = plan::AssumedDisk(disk, result_.record_bytes);
        // What reading costs these cores was seen, if anything was read.
        if (result_.source != RatesSource::kNone) {
          rates.core_seconds = result_.disk_rates.core_seconds;
        }
        add(rates);
      }
    }
  }

  const ExaminationOptions& options_;
  const Clock& clock_;
  std::unique_ptr<Checkpoint> stored_, published_;
  const kernels::KernelTable* kernels_ = nullptr;
  std::optional<ThreadPool> threads_;
  size_t timing_bytes_ = 0;
  Examination result_;
};

}  // namespace

plan::MachineFacts SimulatedFacts(const plan::MachineFacts& machine, uint64_t memory) {
  plan::MachineFacts facts = machine;
  facts.memory_total = memory;
  facts.memory_available = memory - std::min(memory, kSystemBytes);
  facts.memory_promised = facts.group_promised = 0;
  facts.memory = {};
  facts.memory.total = facts.memory.machine_total = memory;
  facts.memory.available = facts.memory.machine_available = facts.memory_available;
  facts.memory.swaps = machine.memory.swaps;
  facts.memory.lock_limit = machine.memory.lock_limit;
  return facts;
}

Result<Examination> Examine(const ExaminationOptions& options, const Clock& clock) {
  return Examiner(options, clock).Run();
}

}  // namespace slotstream::engine
