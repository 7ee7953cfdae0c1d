// POST /api/chat and /api/generate
#include "server/ollama_generation.h"

#include <utility>

#include "server/chat_messages.h"
#include "server/generating_route.h"
#include "server/ollama_reply.h"
#include "server/plain_reply.h"
#include "server/reply_format.h"
#include "server/request_body.h"
#include "server/routes.h"
#include "server/sampling_fields.h"
#include "server/text_prompt.h"

namespace slotstream::server {
namespace {

// false, true, or a level.
void ReadThink(Fields& fields, ChatDraft& draft) {
  const Json* think = fields.Get("think");
  if (think == nullptr) return;
  if (think->is_boolean()) {
    draft.thinking = think->get<bool>();
  } else if (!ApplyEffort(TextOf(think), draft)) {
    fields.Refuse("think", "neither true, false nor one of low, medium, high");
  }
}

// What every request of both routes may have. Options that this server has no use for, such as
// num_ctx, are no reason to refuse.
std::optional<ApiError> ReadShared(Fields& fields, OllamaCall& call) {
  engine::Request& request = call.request;
  if (const Json* given = fields.Object("options")) {
    Fields options(*given, "options.");
    ReadSampling(options, request.sampling);
    request.sampling.stop = options.Strings("stop");
    // -1 and -2 mean no limit.
    if (const auto most = options.Integer("num_predict")) {
      request.sampling.max_tokens = *most <= 0 ? generate::kMaxTokensCeiling : *most;
    }
    if (options.error()) return options.error();
  }
  ReadLogProbs(fields, request.alternatives);
  call.model = fields.String("model").value_or(fields.String("name").value_or(""));
  call.stream = fields.Bool("stream").value_or(true);
  if (const Json* keep = fields.Get("keep_alive")) {
    call.unload = *keep == 0 || *keep == "0" || *keep == "0s";
  }
  return fields.error();
}

}  // namespace

std::optional<ApiError> ReadOllamaChat(const Json& body, OllamaCall& call) {
  Fields fields(body);
  ChatDraft draft;
  const Json* messages = fields.List("messages");
  call.load = messages == nullptr || messages->empty();
  if (!call.load) {
    if (auto error = ReadChatMessages(*messages, draft)) return error;
  }
  if (const Json* tools = fields.List("tools")) {
    if (auto error = ReadChatTools(*tools, draft)) return error;
  }
  ReadThink(fields, draft);
  if (const Json* format = fields.Get("format")) {
    if (auto error = ReadOllamaFormat(*format, draft.shape)) return error;
  }
  if (!call.load) {
    if (auto error = SetChat(std::move(draft), call.request)) return error;
  }
  return ReadShared(fields, call);
}

std::optional<ApiError> ReadOllamaGenerate(const Json& body, const text::Tokenizer* tokenizer,
                                           OllamaCall& call) {
  Fields fields(body);
  const std::string prompt = fields.String("prompt").value_or("");
  const std::string suffix = fields.String("suffix").value_or("");
  const Json* images = fields.List("images");
  call.load = prompt.empty() && suffix.empty() && (images == nullptr || images->empty());
  ChatDraft draft;
  ReadThink(fields, draft);
  call.request.sampling = DefaultSampling(draft.thinking, false);
  if (const Json* format = fields.Get("format")) {
    if (auto error = ReadOllamaFormat(*format, draft.shape)) return error;
  }
  if (!suffix.empty() || fields.Bool("raw").value_or(false)) {
    call.request.text = prompt;
    if (!suffix.empty()) FillIn(tokenizer, suffix, call.request);
    if (auto error = HoldReply(draft.shape, call.request)) return error;
  } else {
    if (const std::string system = fields.String("system").value_or(""); !system.empty()) {
      draft.messages.push_back({});
      draft.messages.back().message.role = text::Role::kSystem;
      draft.messages.back().message.content = {{text::ContentItem::Kind::kText, system}};
    }
    draft.messages.push_back({});
    auto& content = draft.messages.back().message.content;
    if (images != nullptr) {
      content.insert(content.begin(), images->size(), {text::ContentItem::Kind::kImage, ""});
    }
    content.push_back({text::ContentItem::Kind::kText, prompt});
    if (auto error = SetChat(std::move(draft), call.request)) return error;
  }
  return ReadShared(fields, call);
}

namespace {

void Send(Service& service, const HttpRequest& request,
          const std::shared_ptr<ResponseStream>& response, OllamaCall call,
          OllamaReplyOptions options) {
  options.model = service.ServedName(call.model);
  if (call.load) {
    const std::string line = Dump(OllamaLoadAnswer(options, call.unload));
    response->Send({.content_type = call.stream ? "application/x-ndjson" : "application/json",
                    .body = call.stream ? line + "\n" : line,
                    .headers = {}});
    return;
  }
  if (call.request.alternatives) options.tokenizer = service.tokenizer();
  ReadHints(request, call.request);
  GenerationCall generation{std::move(call.request), nullptr, response, RequestKey(request)};
  if (call.stream) {
    generation.writer = std::make_unique<OllamaStream>(response, std::move(options));
  } else {
    generation.writer = std::make_unique<PlainReply>(
        response, ErrorForm::kOllama,
        [options = std::move(options)](const CollectedReply& reply,
                                       const generate::GenerationResult& result) {
          return Dump(OllamaAnswer(options, reply, result));
        });
  }
  service.Generate(std::move(generation));
}

void Answer(Service& service, const HttpRequest& request,
            const std::shared_ptr<ResponseStream>& response, bool chat) {
  OllamaReplyOptions options;
  options.chat = chat;
  OllamaCall call;
  const auto read = [&](const Json& body) {
    return chat ? ReadOllamaChat(body, call) : ReadOllamaGenerate(body, service.tokenizer(), call);
  };
  if (!ReadBody(request, *response, read)) return;
  Send(service, request, response, std::move(call), std::move(options));
}

}  // namespace

void AddOllamaGenerationRoutes(Router& router, Service& service) {
  AddGeneratingRoute(
      router, service, "/api/chat",
      [](Service& s, const HttpRequest& request, const std::shared_ptr<ResponseStream>& response) {
        Answer(s, request, response, true);
      });
  AddGeneratingRoute(
      router, service, "/api/generate",
      [](Service& s, const HttpRequest& request, const std::shared_ptr<ResponseStream>& response) {
        Answer(s, request, response, false);
      });
}

}  // namespace slotstream::server
