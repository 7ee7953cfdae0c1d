// The program's commands, one file each.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace slotstream::cli {

// What a parsed command line asks to do; returns the exit code.
using Action = std::function<Result<int>()>;

// Each adds its sub-command to `app` and sets `action` when the user chose it.
void AddRunCommand(CLI::App& app, Action& action);
void AddChatCommand(CLI::App& app, Action& action);
void AddServeCommand(CLI::App& app, Action& action);
void AddLaunchCommand(CLI::App& app, Action& action);
void AddPsCommand(CLI::App& app, Action& action);
void AddStopCommand(CLI::App& app, Action& action);
void AddLogitsCommand(CLI::App& app, Action& action);
void AddQualityCommand(CLI::App& app, Action& action);
void AddDoctorCommand(CLI::App& app, Action& action);
void AddInspectCommand(CLI::App& app, Action& action);
void AddPackCommand(CLI::App& app, Action& action);
void AddSynthCommand(CLI::App& app, Action& action);
void AddReplayCommand(CLI::App& app, Action& action);
void AddPrefixCacheCommand(CLI::App& app, Action& action);
void AddVersionCommand(CLI::App& app, Action& action);

}  // namespace slotstream::cli
