// POST /v1/messages and /v1/messages/count_tokens
#include <utility>

#include "server/anthropic_reply.h"
#include "server/anthropic_request.h"
#include "server/generating_route.h"
#include "server/plain_reply.h"
#include "server/routes.h"

namespace slotstream::server {
namespace {

// The call, or nothing where the response was sent.
std::optional<AnthropicCall> Read(const HttpRequest& request, ResponseStream& response) {
  const auto body = ParseBody(request.body);
  if (!body) {
    response.Send(ErrorResponse(ErrorForm::kAnthropic, ToApiError(body.error())));
    return std::nullopt;
  }
  AnthropicCall call;
  if (const auto error = ReadAnthropicCall(*body, call)) {
    response.Send(ErrorResponse(ErrorForm::kAnthropic, *error));
    return std::nullopt;
  }
  return call;
}

void Messages(Service& service, const HttpRequest& request,
              const std::shared_ptr<ResponseStream>& response) {
  std::optional<AnthropicCall> call = Read(request, *response);
  if (!call) return;
  AnthropicIdentity identity{service.ids().Next("msg_"), service.ServedName(call->model),
                             call->request.chat->enable_thinking.value_or(false)};
  GenerationCall generation{std::move(call->request), nullptr, response, RequestKey(request)};
  if (call->stream) {
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
  std::optional<AnthropicCall> call = Read(request, *response);
  if (!call) return;
  const auto tokens = service.CountTokens(std::move(call->request));
  if (!tokens) {
    response->Send(ErrorResponse(ErrorForm::kAnthropic, ToApiError(tokens.error())));
    return;
  }
  response->Send({.body = Dump({{"input_tokens", *tokens}}), .headers = {}});
}

}  // namespace

void AddAnthropicRoutes(Router& router, Service& service) {
  AddGeneratingRoute(router, service, "/v1/messages", Messages);
  AddGeneratingRoute(router, service, "/v1/messages/count_tokens", CountTokens);
}

}  // namespace slotstream::server
