#include "cli/commands.h"
namespace slotstream::cli { void AddRunCommand(CLI::App&, Action&){} void AddChatCommand(CLI::App&, Action&){} void AddInspectCommand(CLI::App&, Action&){} void AddPackCommand(CLI::App&, Action&){} }
