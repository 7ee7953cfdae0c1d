// What a connection asks of the server behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"
#include "server/response_stream.h"

namespace slotstream::server {

// Bounds of what a client may cost before it has asked for anything.
struct HttpLimits {
  size_t head_bytes = 64 * 1024;
  size_t body_bytes = 8 * 1024 * 1024;
  size_t all_bodies_bytes = 16 * 1024 * 1024;  // of all requests being read and answered
  size_t all_unsent_bytes = 8 * 1024 * 1024;   // of all answers, see ResponseStream
  size_t connections = 1024;
  int head_seconds = 15;        // from a head's first byte to its last
  int body_seconds = 300;       // for a whole body
  int body_pause_seconds = 30;  // between two pieces of a body
  int idle_seconds = 180;       // between two requests
  int send_seconds = 120;       // that a client may take nothing of what waits for it
};

// All but the destructor are called on the HTTP thread and must return soon.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Looks at a request before its body is read; an answer refuses it.
  virtual std::optional<HttpResponse> CheckHead(const HttpRequest& head) = 0;
  // Headers that every answer to this request gets.
  virtual std::vector<HttpHeader> CommonHeaders(const HttpRequest& head) = 0;
  // Answers, now or from another thread.
  virtual void Handle(HttpRequest request, std::shared_ptr<ResponseStream> response) = 0;
  // The answer to what is no request: `path` may be empty. 400, 413, 431 and 503.
  virtual HttpResponse ProtocolError(std::string_view path, int status, std::string message) = 0;
  virtual std::string NewRequestId() = 0;
  // An answer is over; `complete` where the client took all of it.
  virtual void Log(const HttpRequest& head, const ResponseStream& response, uint64_t nanos,
                   bool complete) = 0;
  // Some times a second.
  virtual void Tick() = 0;
};

}  // namespace slotstream::server
