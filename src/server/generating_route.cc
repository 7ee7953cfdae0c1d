#include "server/generating_route.h"

#include <exception>
#include <utility>

namespace slotstream::server {

std::string RequestKey(const HttpRequest& request) {
  // Claude Code, opencode, Codex, in the names that they use.
  for (std::string_view name :
       {"X-Claude-Code-Session-Id", "x-session-id", "session-id", "x-session-affinity"}) {
    if (const auto session = request.Header(name)) return std::string(*session);
  }
  return request.id;
}

void AddGeneratingRoute(Router& router, Service& service, std::string_view path, Answerer answer) {
  const ErrorForm form = ErrorFormOf(path);
  router.Add("POST", path,
             [&service, form, answer = std::move(answer)](
                 HttpRequest request, const std::shared_ptr<ResponseStream>& response) {
               auto shared = std::make_shared<HttpRequest>(std::move(request));
               service.RunWhenLoaded(response, form, [&service, form, answer, shared, response] {
                 try {
                   answer(service, *shared, response);
                 } catch (const std::exception& error) {
                   response->Send(ErrorResponse(form, {.message = error.what()}));
                 }
               });
             });
}

}  // namespace slotstream::server
