// Coding agents, and what each needs to talk to a server of this program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace slotstream::cli {

struct AgentServer {
  std::string url;     // "http://127.0.0.1:11434"
  std::string model;   // its name for clients
  size_t context = 0;  // tokens; 0: not known yet
  std::string key;     // empty: it wants none
};

// How an agent is started. Its configuration files are neither read nor written.
struct AgentCommand {
  std::vector<std::string> arguments;  // with the program's name in front
  std::vector<std::pair<std::string, std::string>> set;
  // Tuning: set only where the user's environment does not say otherwise.
  std::vector<std::pair<std::string, std::string>> defaults;
  std::vector<std::string> unset;
};

struct Agent {
  std::string_view name;     // of the program and of the command
  std::string_view install;  // the command that installs it
  // With less context its own instructions leave no room for work.
  size_t least_context;
  AgentCommand (*command)(const AgentServer& server);
};

std::span<const Agent> Agents();

}  // namespace slotstream::cli
