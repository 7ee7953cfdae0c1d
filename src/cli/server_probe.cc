#include "cli/server_probe.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/local_http.h"

namespace slotstream::cli {
namespace {

using nlohmann::json;

// The HTTP thread answers at once; this is for a machine that is out of memory.
constexpr std::chrono::milliseconds kPatience(3000);

}  // namespace

std::string ApiKey() {
  const char* key = std::getenv("SLOTSTREAM_API_KEY");
  return key == nullptr ? "" : key;
}

Result<std::optional<ServerState>> ProbeServer(const std::string& host, uint16_t port) {
  auto answer = GetLocal(host, port, "/slotstream/status", ApiKey(), kPatience);
  if (!answer) {
    if (answer.error().code == ErrorCode::kNotFound) return std::optional<ServerState>();
    return std::unexpected(std::move(answer).error());
  }
  const std::string address = LocalAddress(host, port);
  if (answer->status == 401) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the server on {} wants an API key; set SLOTSTREAM_API_KEY to it", address));
  }
  const json body = json::parse(answer->body, nullptr, false);
  if (answer->status != 200 || !body.is_object() || body.value("server", "") != "slotstream") {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{} is another program's, perhaps Ollama's; stop that or choose "
                            "another port with --port",
                            address));
  }
  try {
    ServerState state;
    state.loaded = body.at("loaded");
    state.pid = body.at("pid");
    state.model = body.at("model");
    state.context = body.at("context_window");
    state.running = body.at("running");
    state.waiting = body.at("waiting");
    state.answered = body.at("generations").at("finished");
    return state;
  } catch (const json::exception& error) {
    return Fail(
        ErrorCode::kUnsupported,
        fmt::format("the slotstream on {} is of another version ({})", address, error.what()));
  }
}

}  // namespace slotstream::cli
