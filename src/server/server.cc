#include "server/server.h"

#include <fmt/format.h>

#include <ctime>
#include <thread>
#include <utility>

#include "server/router.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

// Answers that are finished but not yet taken get so long when the server stops.
constexpr auto kLastBytes = std::chrono::milliseconds(1000);

// For the log: no client writes lines of its own into it, or speaks to the terminal.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

// Open without a key: probes of clients and supervisors.
bool IsPublic(std::string_view path) { return path == "/" || path == "/health"; }

}  // namespace

class Server::Handler : public HttpHandler {
 public:
  Handler(Service& service, AccessOptions access, std::function<void(std::string_view)> log)
      : service_(service), access_(std::move(access)), log_(std::move(log)) {
    AddOpenAiChatRoutes(router_, service);
    AddOpenAiCompletionRoutes(router_, service);
    AddOpenAiModelRoutes(router_, service);
    AddResponsesRoutes(router_, service);
    AddOllamaGenerationRoutes(router_, service);
    AddOllamaModelRoutes(router_, service);
    AddAnthropicRoutes(router_, service);
    AddOperationRoutes(router_, service);
    AddPageRoute(router_);
  }

  std::optional<HttpResponse> CheckHead(const HttpRequest& head) override {
    const ErrorForm form = ErrorFormOf(head.path);
    if (!access_.AllowsOrigin(head)) {
      return ErrorResponse(form, {.kind = ApiError::Kind::kForbidden,
                                  .message = "web pages of this origin may not use this server; "
                                             "--allow-origin lets them"});
    }
    if (head.method == "OPTIONS" || IsPublic(head.path) || access_.AcceptsKey(head)) {
      return std::nullopt;
    }
    return ErrorResponse(form, {.kind = ApiError::Kind::kUnauthorized,
                                .message = "this server was started with an API key; send it as "
                                           "Authorization: Bearer KEY or x-api-key: KEY"});
  }

  std::vector<HttpHeader> CommonHeaders(const HttpRequest& head) override {
    std::vector<HttpHeader> headers = access_.CorsHeaders(head);
    // OpenAI's and Anthropic's libraries look for one each.
    headers.push_back({"X-Request-Id", head.id});
    headers.push_back({"Request-Id", head.id});
    headers.push_back({"Date", HttpDate(std::time(nullptr))});
    return headers;
  }

  void Handle(HttpRequest request, std::shared_ptr<ResponseStream> response) override {
    service_.stats().CountRequest();
    const ErrorForm form = ErrorFormOf(request.path);
    if (request.method == "OPTIONS") {
      response->Send(access_.Preflight(request));
      return;
    }
    if (const RouteHandler* handler = router_.Find(request.method, request.path)) {
      try {
        (*handler)(std::move(request), response);
      } catch (const std::exception& error) {
        response->Send(ErrorResponse(form, {.message = error.what()}));
      }
      return;
    }
    response->Send(NoRoute(request, form));
  }

  HttpResponse ProtocolError(std::string_view path, int status, std::string message) override {
    using Kind = ApiError::Kind;
    const Kind kind = status == 413   ? Kind::kTooLarge
                      : status == 431 ? Kind::kHeadTooLarge
                      : status == 503 ? Kind::kOverloaded
                                      : Kind::kInvalid;
    return ErrorResponse(ErrorFormOf(path), {.kind = kind, .message = std::move(message)});
  }

  std::string NewRequestId() override { return service_.ids().Next("req_"); }

  void Log(const HttpRequest& head, const ResponseStream& response, uint64_t nanos,
           bool complete) override {
    service_.stats().CountAnswer(response.status());
    if (!log_) return;
    log_(fmt::format("{} {} {} {} {} {:.1f}ms {}B{}{}{}", head.id, head.peer, head.method,
                     Printable(head.path), response.status(), static_cast<double>(nanos) / 1e6,
                     response.bytes(), complete ? "" : " left", response.note().empty() ? "" : " ",
                     response.note()));
  }

  void Tick() override {
    // Keep-alives need no more than that.
    if (++ticks_ % kTicksPerSecond == 0) service_.scheduler().Tick();
  }

 private:
  static constexpr uint64_t kTicksPerSecond = 10;

  HttpResponse NoRoute(const HttpRequest& request, ErrorForm form) const {
    const std::string methods = router_.Methods(request.path);
    // Clients look for the server with HEAD on any route that they are going to use.
    if (request.method == "HEAD" && !methods.empty()) return {.body = {}, .headers = {}};
    if (methods.empty()) {
      return ErrorResponse(
          form, {.kind = ApiError::Kind::kNotFound,
                 .message = fmt::format("there is no {} {} here", request.method, request.path)});
    }
    HttpResponse answer =
        ErrorResponse(form, {.kind = ApiError::Kind::kMethod,
                             .message = fmt::format("{} takes {}", request.path, methods)});
    answer.headers.push_back({"Allow", methods});
    return answer;
  }

  Service& service_;
  const AccessPolicy access_;
  const std::function<void(std::string_view)> log_;
  Router router_;
  uint64_t ticks_ = 0;
};

Server::Server() = default;

Server::~Server() { http_.reset(); }

Result<std::unique_ptr<Server>> Server::Create(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server);
  server->service_ = std::make_unique<Service>(options.service);
  server->handler_ =
      std::make_unique<Handler>(*server->service_, options.access, options.service.log);
  SS_ASSIGN_OR_RETURN(server->http_, HttpServer::Bind(options.http, *server->handler_));
  server->http_->Start();
  return server;
}

uint16_t Server::port() const { return http_->port(); }

void Server::SetEngine(engine::Engine& engine) { service_->SetEngine(engine); }

void Server::Stop(std::chrono::milliseconds grace) {
  http_->StopAccepting();
  service_->Drain(grace);
  // The last bytes of answers are on their way to their clients.
  const auto latest = std::chrono::steady_clock::now() + kLastBytes;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // more than one sweep
  } while (!http_->Quiet() && std::chrono::steady_clock::now() < latest);
  http_.reset();
}

}  // namespace slotstream::server
