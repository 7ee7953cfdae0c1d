#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "base/version.h"
#include "cli/commands.h"

namespace slotstream::cli {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int Main(int argc, char** argv) {
  CLI::App app("Runs Qwen3.8-Flash-Next (qwen4_exp) with its experts streamed from disk.",
               "slotstream");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  Action action;
  AddRunCommand(app, action);
  AddChatCommand(app, action);
  AddServeCommand(app, action);
  AddDoctorCommand(app, action);
  AddLaunchCommand(app, action);
  AddPsCommand(app, action);
  AddStopCommand(app, action);
  AddInspectCommand(app, action);
  AddPackCommand(app, action);
  AddSynthCommand(app, action);
  AddLogitsCommand(app, action);
  AddQualityCommand(app, action);
  AddReplayCommand(app, action);
  AddPrefixCacheCommand(app, action);
  AddVersionCommand(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  try {
    Result<int> result = action();
    if (result) return *result;
    fmt::print(stderr, "slotstream: {}\n", result.error().message);
  } catch (const std::exception& error) {
    // The library's own errors are values; what arrives here is memory that could not be had.
    fmt::print(stderr, "slotstream: {}\n", error.what());
  }
  return kExitFailure;
}

}  // namespace

void AddVersionCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->callback([&action] {
    action = [] {
      fmt::print("slotstream {}\n", kVersion);
      return 0;
    };
  });
}

}  // namespace slotstream::cli

int main(int argc, char** argv) { return slotstream::cli::Main(argc, argv); }
