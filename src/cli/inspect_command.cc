// `slotstream inspect`: what a checkpoint is, and what is missing or wrong.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "checkpoint/describe.h"
#include "cli/commands.h"

namespace slotstream::cli {
namespace {

Result<int> Inspect(const std::string& directory) {
  SS_ASSIGN_OR_RETURN(checkpoint::Description description, checkpoint::Describe(directory));
  for (const std::string& line : checkpoint::FormatDescription(description)) {
    fmt::print("{}\n", line);
  }
  return description.usable() ? 0 : 1;
}

}  // namespace

void AddInspectCommand(CLI::App& app, Action& action) {
  auto directory = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("inspect", "Print what a checkpoint is, and what is missing or wrong");
  command->add_option("DIR", *directory, "Checkpoint directory, original or packed")->required();
  command->callback([directory, &action] { action = [directory] { return Inspect(*directory); }; });
}

}  // namespace slotstream::cli
