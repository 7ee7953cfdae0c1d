// Fuzzes what reads HTTP, over a real connection each time: bytes in, answers out, then the server
// must still answer an honest request.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/access_policy.h"
#include "server/generating_route.h"
#include "server/http_server.h"
#include "server/router.h"

namespace slotstream::server {
namespace {

// Repeats the body, after all that a real handler does with a head.
class Echo : public HttpHandler {
 public:
  Echo() : access_({.api_key = "key", .allowed_origins = {"http://good.example"}}) {
    router_.Add("POST", "/v1/messages", nullptr);
    router_.Add("GET", "/v1/models/*", nullptr);
  }
  std::optional<HttpResponse> CheckHead(const HttpRequest& head) override {
    if (!access_.AllowsOrigin(head)) return HttpResponse{.status = 403, .body = {}, .headers = {}};
    access_.AcceptsKey(head);
    return std::nullopt;
  }
  std::vector<HttpHeader> CommonHeaders(const HttpRequest& head) override {
    return access_.CorsHeaders(head);
  }
  void Handle(HttpRequest request, std::shared_ptr<ResponseStream> response) override {
    router_.Find(request.method, request.path);
    router_.Methods(request.path);
    RequestKey(request);
    if (request.method == "OPTIONS") return response->Send(access_.Preflight(request));
    response->Begin("text/plain");
    response->Write(request.path);
    response->Write(request.body);
    response->End();
  }
  HttpResponse ProtocolError(std::string_view path, int status, std::string message) override {
    return ErrorResponse(ErrorFormOf(path), {.kind = status == 413 ? ApiError::Kind::kTooLarge
                                                                   : ApiError::Kind::kInvalid,
                                             .message = std::move(message)});
  }
  std::string NewRequestId() override { return "id"; }
  void Log(const HttpRequest&, const ResponseStream&, uint64_t, bool) override {}
  void Tick() override {}

 private:
  AccessPolicy access_;
  Router router_;
};

// What comes back for `bytes`. Without more to come the sending half may be closed, which to this
// server means a client that is gone: right for junk, which may wait for more otherwise.
std::string Answer(uint16_t port, std::string_view bytes, bool close_half) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // No port is left in TIME_WAIT, of which thousands of inputs a second would soon have all.
  const linger at_once = {1, 0};
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  std::string answer;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (close_half) shutdown(connection, SHUT_WR);
    char buffer[4096];
    for (;;) {
      const ssize_t count = recv(connection, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      answer.append(buffer, static_cast<size_t>(count));
    }
  }
  close(connection);
  return answer;
}

}  // namespace
}  // namespace slotstream::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace slotstream::server;
  static Echo echo;
  static const std::unique_ptr<HttpServer> server = [] {
    HttpOptions options;
    options.port = 0;
    options.limits.body_bytes = 4096;
    auto bound = HttpServer::Bind(options, echo).value();
    bound->Start();
    return bound;
  }();
  Answer(server->port(), {reinterpret_cast<const char*>(data), size}, true);
  const std::string answer =
      Answer(server->port(), "GET /x HTTP/1.1\r\nConnection: close\r\n\r\n", false);
  if (!answer.starts_with("HTTP/1.1 200")) {
    std::fprintf(stderr, "no honest answer any more: %s\n", answer.c_str());
    std::abort();
  }
  return 0;
}
