// POST /v1/chat/completions
#include "server/openai_chat.h"

#include <memory>
#include <utility>

#include "server/chat_messages.h"
#include "server/generating_route.h"
#include "server/openai_reply.h"
#include "server/reply_format.h"
#include "server/request_body.h"
#include "server/routes.h"
#include "server/sampling_fields.h"

namespace slotstream::server {
namespace {

// Open WebUI passes Ollama's `think` through; the others say reasoning_effort.
void ReadThinking(Fields& fields, ChatDraft& draft) {
  if (const auto effort = fields.String("reasoning_effort");
      effort && !ApplyEffort(*effort, draft)) {
    fields.Refuse("reasoning_effort", "none of none, minimal, low, medium, high, xhigh, max");
  }
  if (const Json* think = fields.Get("think")) {
    if (think->is_boolean()) {
      draft.thinking = think->get<bool>();
    } else if (!ApplyEffort(TextOf(think), draft)) {
      fields.Refuse("think", "neither true, false nor a level");
    }
  }
  // The template's own switch, as vLLM's and SGLang's clients send it.
  if (const Json* arguments = fields.Object("chat_template_kwargs")) {
    Fields inner(*arguments, "chat_template_kwargs.");
    if (const auto enable = inner.Bool("enable_thinking")) draft.thinking = *enable;
  }
}

void ReadLimits(Fields& fields, engine::Request& request) {
  generate::SamplingParams& sampling = request.sampling;
  ReadMaxTokens(fields, "max_tokens", sampling);
  ReadMaxTokens(fields, "max_completion_tokens", sampling);
  sampling.stop = fields.Strings("stop");
  if (fields.Integer("n").value_or(1) != 1) fields.Refuse("n", "only one answer is given: n is 1");
  ReadLogProbs(fields, request.alternatives);
  if (!request.alternatives && fields.Integer("top_logprobs").value_or(0) > 0) {
    fields.Refuse("top_logprobs", "needs logprobs to be true");
  }
}

}  // namespace

std::optional<ApiError> ReadOpenAiChatCall(const Json& body, OpenAiCall& call) {
  Fields fields(body);
  ChatDraft draft;
  const Json* messages = fields.List("messages");
  if (messages == nullptr) {
    fields.Refuse("messages", "there are none");
    return fields.error();
  }
  if (auto error = ReadChatMessages(*messages, draft)) return error;
  if (const Json* tools = fields.List("tools")) {
    if (auto error = ReadChatTools(*tools, draft)) return error;
  }
  if (const Json* choice = fields.Get("tool_choice")) {
    if (auto error = ReadToolChoice(*choice, draft)) return error;
  }
  ReadThinking(fields, draft);
  if (const Json* format = fields.Object("response_format")) {
    if (auto error = ReadFormat(*format, "response_format", draft.shape)) return error;
  }
  engine::Request& request = call.request;
  if (auto error = SetChat(std::move(draft), request)) return error;
  ReadSampling(fields, request.sampling);
  request.single_call = !fields.Bool("parallel_tool_calls").value_or(true);
  ReadLimits(fields, request);
  request.hints.session = fields.String("prompt_cache_key").value_or("");
  ReadDelivery(fields, call);
  return fields.error();
}

namespace {

std::unique_ptr<ReplyWriter> Stream(std::shared_ptr<ResponseStream> response,
                                    OpenAiReplyOptions options) {
  return std::make_unique<OpenAiChatStream>(std::move(response), std::move(options));
}

std::string Whole(const OpenAiReplyOptions& options, const CollectedReply& reply,
                  const generate::GenerationResult& result) {
  return Dump(OpenAiChatAnswer(options, reply, result));
}

void Answer(Service& service, const HttpRequest& request,
            const std::shared_ptr<ResponseStream>& response) {
  OpenAiCall call;
  const auto read = [&](const Json& body) { return ReadOpenAiChatCall(body, call); };
  if (!ReadBody(request, *response, read)) return;
  AnswerOpenAiCall(service, request, response, std::move(call), {"chatcmpl-", Stream, Whole});
}

}  // namespace

void AddOpenAiChatRoutes(Router& router, Service& service) {
  AddGeneratingRoute(router, service, "/v1/chat/completions", Answer);
}

}  // namespace slotstream::server
