// `slotstream serve`: Ollama's, OpenAI's and Anthropic's HTTP interfaces over one engine.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "server/access_policy.h"
#include "server/http_server.h"
#include "server/service.h"

namespace slotstream::server {

struct ServerOptions {
  HttpOptions http;
  AccessOptions access;
  ServiceOptions service;
};

// Its life: Create binds the port and begins to answer; requests that need the model wait until
// SetEngine; Stop ends all of them, after which the engine may go.
class Server {
 public:
  // Errors: those of HttpServer::Bind.
  static Result<std::unique_ptr<Server>> Create(const ServerOptions& options);
  ~Server();

  uint16_t port() const;
  void SetEngine(engine::Engine& engine);
  // Accepts no more; gives what runs `grace` to end.
  void Stop(std::chrono::milliseconds grace);

 private:
  class Handler;
  Server();

  // In the order of their lives: the connections go first.
  std::unique_ptr<Service> service_;
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace slotstream::server
