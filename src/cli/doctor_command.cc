// `slotstream doctor`: what this machine is, what the model would do on it, and why.

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <memory>
#include <string>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/doctor_report.h"
#include "cli/model_options.h"
#include "cli/user_directories.h"
#include "engine/examination.h"

namespace slotstream::cli {
namespace {

// Beyond any machine; keeps the conversion to bytes exact.
constexpr double kMostGb = 1e6;

struct DoctorOptions {
  ModelOptions model;
  bool json = false;
  bool measure = false;
  bool published = false;
  double sim_ram = 0;
  double sim_disk = 0;
};

Result<double> Amount(const char* flag, double gigabytes) {
  if (gigabytes > 0 && gigabytes < kMostGb) return gigabytes * 1e9;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{} {} is no amount", flag, gigabytes));
}

Result<int> Doctor(const DoctorOptions& options, const CLI::App& command) {
  SS_ASSIGN_OR_RETURN(const engine::LoadOptions load, ToLoadOptions(options.model, command));
  engine::ExaminationOptions examination;
  examination.directory = load.directory;
  examination.published = options.published;
  examination.wishes = load.wishes;
  examination.io = load.io;
  examination.kernels = load.kernels;
  examination.profile_directory = CacheDirectory();
  examination.registry_directory = EngineDirectory();
  examination.measure = options.measure;
  examination.now = std::time(nullptr);
  if (command.count("--sim-ram") > 0) {
    SS_ASSIGN_OR_RETURN(const double bytes, Amount("--sim-ram", options.sim_ram));
    examination.memory = static_cast<uint64_t>(std::llround(bytes));
  }
  if (command.count("--sim-disk") > 0) {
    SS_ASSIGN_OR_RETURN(examination.disk, Amount("--sim-disk", options.sim_disk));
  }
  SS_ASSIGN_OR_RETURN(const engine::Examination found,
                      engine::Examine(examination, Clock::Steady()));
  std::string model = load.directory.empty() ? "" : Shown(load.directory);
  if (load.directory.empty()) {
    model = "the published model";
  } else if (options.published) {
    model += ", as if it were the published model";
  }
  fmt::print("{}", options.json ? ExaminationJson(found, model) : FormatExamination(found, model));
  return 0;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what this machine is, and how fast the model would be on it");
  AddModelOptions(*command, options->model);
  command->get_option("--model")->required(false)->description(
      "Checkpoint directory, whose disk is measured (default: the published model's "
      "sizes, no disk)");
  command->add_flag("--published", options->published,
                    "Plan and forecast for the published model, with the disk of --model DIR");
  command->add_flag("--measure", options->measure, "Measure the disk again, and for longer");
  command
      ->add_option("--sim-ram", options->sim_ram,
                   "As if the machine had so much memory, decimal GB")
      ->type_name("GB");
  command->add_option("--sim-disk", options->sim_disk, "As if the disk read so much, decimal GB/s")
      ->type_name("GB/s");
  command->add_flag("--json", options->json, "For programs");
  command->callback([options, command, &action] {
    action = [options, command] { return Doctor(*options, *command); };
  });
}

}  // namespace slotstream::cli
