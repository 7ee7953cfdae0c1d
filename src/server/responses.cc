// POST /v1/responses
#include <ctime>
#include <utility>

#include "server/generating_route.h"
#include "server/plain_reply.h"
#include "server/request_body.h"
#include "server/responses_items.h"
#include "server/responses_reply.h"
#include "server/responses_request.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

std::unique_ptr<ReplyWriter> MakeWriter(bool stream, ResponsesIdentity identity,
                                        const std::shared_ptr<ResponseStream>& response,
                                        IdSource& ids) {
  if (stream) return std::make_unique<ResponsesStream>(response, std::move(identity), ids);
  return std::make_unique<PlainReply>(
      response, ErrorForm::kOpenAi,
      [identity = std::move(identity), &ids](const CollectedReply& reply,
                                             const generate::GenerationResult& result) {
        Json items = ReplyItems(reply, identity.tools, identity.tokenizer, ids);
        return Dump(EndedResponse(identity, std::move(items), result, !reply.calls.empty()));
      });
}

void Answer(Service& service, const HttpRequest& request,
            const std::shared_ptr<ResponseStream>& response) {
  ResponsesCall call;
  const auto read = [&](const Json& body) { return ReadResponsesCall(body, call); };
  if (!ReadBody(request, *response, read)) return;
  ResponsesIdentity identity{
      service.ids().Next("resp_"), service.ServedName(call.model),
      std::time(nullptr),          std::move(call.echo),
      std::move(call.tools),       call.request.alternatives ? service.tokenizer() : nullptr};
  auto writer = MakeWriter(call.stream, std::move(identity), response, service.ids());
  if (call.empty) {
    writer->Begin({});
    writer->End({});
    return;
  }
  ReadHints(request, call.request);
  service.Generate({std::move(call.request), std::move(writer), response, RequestKey(request)});
}

}  // namespace

void AddResponsesRoutes(Router& router, Service& service) {
  AddGeneratingRoute(router, service, "/v1/responses", Answer);
  // Nothing is kept, so nothing is found. Codex tries a WebSocket with GET on the route itself and
  // goes on without one when it gets this.
  const auto not_kept = [](const HttpRequest&, const std::shared_ptr<ResponseStream>& response) {
    response->Send(ErrorResponse(
        ErrorForm::kOpenAi,
        {.kind = ApiError::Kind::kNotFound, .message = "this server keeps no responses"}));
  };
  router.Add("GET", "/v1/responses", not_kept);
  router.Add("GET", "/v1/responses/*", not_kept);
  router.Add("DELETE", "/v1/responses/*", not_kept);
}

}  // namespace slotstream::server
