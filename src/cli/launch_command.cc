// `slotstream launch`: a coding agent on a server of this program.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/agents.h"
#include "cli/background_server.h"
#include "cli/commands.h"
#include "cli/local_http.h"
#include "io/system_error.h"
#include "server/service.h"

namespace slotstream::cli {
namespace {

struct LaunchOptions {
  std::string agent;
  std::vector<std::string> agent_arguments;
  std::string directory;
  uint16_t port = 11434;
  std::string memory_gb, max_context;  // passed on to `serve`
  bool dry_run = false;
};

const Agent* FindAgent(std::string_view name) {
  const auto found = std::ranges::find(Agents(), name, &Agent::name);
  return found == Agents().end() ? nullptr : &*found;
}

// As execvp will look for it.
bool IsInstalled(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "" : path;
  while (!left.empty()) {
    const size_t end = std::min(left.find(':'), left.size());
    const std::string file = fmt::format("{}/{}", left.substr(0, end), program);
    if (access(file.c_str(), X_OK) == 0) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

// One word for a shell.
std::string Quoted(std::string_view word) {
  constexpr std::string_view kPlain = "%+,-./:=@_";
  const bool plain = !word.empty() && std::ranges::all_of(word, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || kPlain.contains(c);
  });
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string Joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + Quoted(word);
  return line;
}

Result<BackgroundServer> ServerToStart(const LaunchOptions& options) {
  if (options.directory.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("no server runs on port {}; say with --model which checkpoint a new "
                            "one should serve",
                            options.port));
  }
  std::vector<std::string> flags;
  if (!options.memory_gb.empty()) flags.insert(flags.end(), {"--memory-gb", options.memory_gb});
  if (!options.max_context.empty()) {
    flags.insert(flags.end(), {"--max-context", options.max_context});
  }
  return PlanServer(options.directory, options.port, flags);
}

AgentCommand CommandFor(const Agent& agent, const LaunchOptions& options, const ServerState& state,
                        std::string key) {
  AgentCommand command =
      agent.command({.url = fmt::format("http://{}", LocalAddress("127.0.0.1", options.port)),
                     .model = state.model,
                     .context = state.context,
                     .key = std::move(key)});
  command.arguments.insert(command.arguments.end(), options.agent_arguments.begin(),
                           options.agent_arguments.end());
  return command;
}

Result<int> DryRun(const Agent& agent, const LaunchOptions& options) {
  SS_ASSIGN_OR_RETURN(std::optional<ServerState> state, ProbeServer("127.0.0.1", options.port));
  if (state) {
    fmt::print("# a server runs: pid {}, {}, {} tokens of context\n", state->pid, state->model,
               state->context);
  } else {
    SS_ASSIGN_OR_RETURN(const BackgroundServer server, ServerToStart(options));
    fmt::print("# first, in the background:\n{} > {} 2>&1 &\n", Joined(server.arguments),
               Quoted(server.log));
    fmt::print("# the server's own limits are added once it runs\n");
    state.emplace();
    state->model = server::ServiceOptions().model_name;
  }
  if (!IsInstalled(agent.name)) fmt::print("# not installed: {}\n", agent.install);
  const std::string key = ApiKey().empty() ? "" : "(SLOTSTREAM_API_KEY)";
  const AgentCommand command = CommandFor(agent, options, *state, key);
  for (const std::string& name : command.unset) fmt::print("unset {}\n", name);
  for (const auto& [name, value] : command.set) fmt::print("export {}={}\n", name, Quoted(value));
  for (const auto& [name, value] : command.defaults) {
    if (std::getenv(name.c_str()) == nullptr) fmt::print("export {}={}\n", name, Quoted(value));
  }
  fmt::print("{}\n", Joined(command.arguments));
  return 0;
}

Result<ServerState> FindOrStart(const LaunchOptions& options) {
  SS_ASSIGN_OR_RETURN(const std::optional<ServerState> state,
                      ProbeServer("127.0.0.1", options.port));
  if (state && state->loaded) return *state;
  if (state) return WaitForServer(options.port);
  SS_ASSIGN_OR_RETURN(const BackgroundServer server, ServerToStart(options));
  fmt::print(stderr, "starting a server on port {}; its log is {}\n", options.port, server.log);
  auto started = StartServer(server);
  if (started) {
    fmt::print(stderr, "it runs until `slotstream stop --port {}`\n", options.port);
  }
  return started;
}

Result<int> Launch(const LaunchOptions& options) {
  const Agent* agent = FindAgent(options.agent);
  if (options.dry_run) return DryRun(*agent, options);
  if (!IsInstalled(agent->name)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{} is not installed, or not in PATH; `{}` installs it", agent->name,
                            agent->install));
  }
  SS_ASSIGN_OR_RETURN(const ServerState state, FindOrStart(options));
  if (state.context < agent->least_context) {
    fmt::print(stderr,
               "note: the server has {} tokens of context, and {} needs {} to work well; start "
               "the server with more memory or --max-context\n",
               state.context, agent->name, agent->least_context);
  }
  const AgentCommand command = CommandFor(*agent, options, state, ApiKey());
  for (const std::string& name : command.unset) unsetenv(name.c_str());
  for (const auto& [name, value] : command.set) setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : command.defaults) setenv(name.c_str(), value.c_str(), 0);
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  return std::unexpected(io::SystemError(errno, "start", agent->name));
}

}  // namespace

void AddLaunchCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand(
      "launch", "Start a coding agent on this program's server, and the server if none runs");
  std::vector<std::string> names;
  for (const Agent& agent : Agents()) names.emplace_back(agent.name);
  command->add_option("agent", options->agent, "Which agent")
      ->required()
      ->check(CLI::IsMember(names));
  command->add_option("arguments", options->agent_arguments, "After --: the agent's own arguments");
  command
      ->add_option("--model", options->directory,
                   "Checkpoint directory, for a server that must be started")
      ->type_name("DIR");
  command->add_option("--port", options->port, "The server's port on 127.0.0.1")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command
      ->add_option("--memory-gb", options->memory_gb,
                   "Memory of a server that must be started, as of `serve`")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--max-context", options->max_context,
                   "Context of a server that must be started, as of `serve`")
      ->check(CLI::PositiveNumber);
  command->add_flag("--dry-run", options->dry_run,
                    "Print what would be done, as commands of a shell, and do nothing");
  command->callback([options, &action] { action = [options] { return Launch(*options); }; });
}

}  // namespace slotstream::cli
