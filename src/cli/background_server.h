// A server of this program that goes on when the command that started it has ended.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/server_probe.h"

namespace slotstream::cli {

struct BackgroundServer {
  uint16_t port = 0;
  std::vector<std::string> arguments;  // of the process, with this program's path in front
  std::string log;                     // its output; the former log gets the suffix ".1"
};

// The server on 127.0.0.1 that serves `directory`'s model on `port`. `flags` go to `serve`.
// Errors: those of StateDirectory.
Result<BackgroundServer> PlanServer(const std::string& directory, uint16_t port,
                                    const std::vector<std::string>& flags);

// Starts it in a session of its own, so that the terminal's Ctrl-C is not for it, and waits until
// its model is loaded. When it ends before that, the error has the end of its log; if it ended
// because another took the port in the meantime, that one is waited for.
Result<ServerState> StartServer(const BackgroundServer& server);

// Waits until the model of the server on `port`, which somebody else started, is loaded.
Result<ServerState> WaitForServer(uint16_t port);

}  // namespace slotstream::cli
