#include "server/generating_route.h"

#include <exception>
#include <utility>

namespace slotstream::server {

namespace {

// Claude Code, opencode, Codex, in the names that they use.
std::optional<std::string_view> SessionOf(const HttpRequest& request) {
  for (const std::string_view name :
       {"X-Claude-Code-Session-Id", "x-session-id", "session-id", "x-session-affinity"}) {
    if (const auto session = request.Header(name)) return session;
  }
  return std::nullopt;
}

}  // namespace

std::string RequestKey(const HttpRequest& request) {
  return std::string(SessionOf(request).value_or(request.id));
}

void ReadHints(const HttpRequest& request, engine::Request& generation) {
  if (const auto session = SessionOf(request)) generation.hints.session = *session;
  for (const std::string_view name : {"x-claude-code-agent-id", "x-openai-subagent",
                                      "x-codex-parent-thread-id", "x-parent-session-id"}) {
    if (request.Header(name)) generation.hints.side = true;
  }
  const std::string_view control = request.Header("Cache-Control").value_or("");
  generation.keep_off_disk = control.find("no-store") != std::string_view::npos;
}

void AddGeneratingRoute(Router& router, Service& service, std::string_view path, Answerer answer) {
  const ErrorForm form = ErrorFormOf(path);
  router.Add("POST", path,
             [&service, form, answer = std::move(answer)](
                 HttpRequest request, const std::shared_ptr<ResponseStream>& response) {
               auto shared = std::make_shared<HttpRequest>(std::move(request));
               const auto work = [&service, form, answer, shared, response] {
                 try {
                   answer(service, *shared, response);
                 } catch (const std::exception& error) {
                   response->Send(ErrorResponse(form, {.message = error.what()}));
                 }
               };
               service.RunWhenLoaded(response, form, work, shared->body.size());
             });
}

}  // namespace slotstream::server
