// What a server of this program says about itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace slotstream::cli {

struct ServerState {
  bool loaded = false;
  int pid = 0;
  std::string model;   // its name for clients
  size_t context = 0;  // tokens; 0 while it loads
  uint64_t running = 0, waiting = 0, answered = 0;
};

// The API key that clients of this user's servers send: $SLOTSTREAM_API_KEY, or nothing.
std::string ApiKey();

// Asks GET /slotstream/status. Nothing when nobody listens. Errors: kInvalidArgument (it wants
// another key), kIo (no answer), kUnsupported (another program has the port).
Result<std::optional<ServerState>> ProbeServer(const std::string& host, uint16_t port);

}  // namespace slotstream::cli
