// POST /v1/messages and /v1/messages/count_tokens
#include <utility>

#include "server/anthropic_reply.h"
#include "server/anthropic_request.h"
#include "server/generating_route.h"
#include "server/plain_reply.h"
#include "server/request_body.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

bool Read(const HttpRequest& request, ResponseStream& response, AnthropicCall& call) {
  return ReadBody(request, response,
                  [&](const Json& body) { return ReadAnthropicCall(body, call); });
}

void Messages(Service& service, const HttpRequest& request,
              const std::shared_ptr<ResponseStream>& response) {
  AnthropicCall call;
  if (!Read(request, *response, call)) return;
  AnthropicIdentity identity{service.ids().Next("msg_"), service.ServedName(call.model),
                             call.request.chat->enable_thinking.value_or(false)};
  ReadHints(request, call.request);
  GenerationCall generation{std::move(call.request), nullptr, response, RequestKey(request)};
  if (call.stream) {
    generation.writer = std::make_unique<AnthropicStream>(response, std::move(identity));
  } else {
    generation.writer = std::make_unique<PlainReply>(
        response, ErrorForm::kAnthropic,
        [identity = std::move(identity)](const CollectedReply& reply,
                                         const generate::GenerationResult& result) {
          return Dump(AnthropicAnswer(identity, reply, result));
        });
  }
  service.Generate(std::move(generation));
}

void CountTokens(Service& service, const HttpRequest& request,
                 const std::shared_ptr<ResponseStream>& response) {
  AnthropicCall call;
  if (!Read(request, *response, call)) return;
  const auto tokens = service.CountTokens(std::move(call.request));
  if (!tokens) return Refuse(request, *response, ToApiError(tokens.error()));
  response->Send({.body = Dump({{"input_tokens", *tokens}}), .headers = {}});
}

}  // namespace

void AddAnthropicRoutes(Router& router, Service& service) {
  AddGeneratingRoute(router, service, "/v1/messages", Messages);
  AddGeneratingRoute(router, service, "/v1/messages/count_tokens", CountTokens);
}

}  // namespace slotstream::server
