// Accepts connections and runs them on one thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http_handler.h"

namespace slotstream::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 11434;  // 0: any free one
  HttpLimits limits;
};

class HttpServer {
 public:
  // Binds and listens; nothing is accepted yet. `handler` must outlive the server. Errors: kIo,
  // kInvalidArgument (no such host) with what to do.
  static Result<std::unique_ptr<HttpServer>> Bind(const HttpOptions& options, HttpHandler& handler);
  // Cuts what is still open.
  ~HttpServer();

  uint16_t port() const;
  // Begins to accept.
  void Start();
  // Accepts no more and lets go of idle connections; answers under way go on.
  void StopAccepting();
  // True when no connection is answering any more.
  bool Quiet() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace slotstream::server
