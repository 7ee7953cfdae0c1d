// POST /v1/completions: text goes on, without the chat template.
#include "server/openai_completions.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "server/generating_route.h"
#include "server/log_probs.h"
#include "server/openai_reply.h"
#include "server/reply_format.h"
#include "server/request_body.h"
#include "server/routes.h"
#include "server/sampling_fields.h"
#include "server/sse.h"
#include "server/text_prompt.h"

namespace slotstream::server {
namespace {

using Kind = generate::ReplyEvent::Kind;

// OpenAI's default for this route.
constexpr int64_t kDefaultTokens = 16;

Json Choice(std::string_view text, Json finish, Json log_probs) {
  return {{"index", 0},
          {"text", text},
          {"logprobs", std::move(log_probs)},
          {"finish_reason", std::move(finish)}};
}

Json Envelope(const OpenAiIdentity& identity, Json choices) {
  return {{"id", identity.id},
          {"object", "text_completion"},
          {"created", identity.created},
          {"model", identity.model},
          {"choices", std::move(choices)}};
}

class CompletionStream : public ReplyWriter {
 public:
  CompletionStream(std::shared_ptr<ResponseStream> response, OpenAiReplyOptions options)
      : response_(std::move(response)), options_(std::move(options)) {}

  void Begin(const PromptCount&) override { response_->Begin(kEventStream); }
  void Event(const generate::ReplyEvent& event) override { Text(event.text); }
  void Token(const generate::ChosenToken& token) override { tokens_.push_back(token); }
  void KeepAlive() override { Text(""); }

  void End(const generate::GenerationResult& result) override {
    Write(Json::array({Choice("", OpenAiFinishReason(result, false), LogProbs())}));
    if (options_.include_usage) {
      Json usage = Envelope(options_.identity, Json::array());
      usage["usage"] = OpenAiUsage(result);
      response_->Write(SseData(usage));
    }
    response_->Write("data: [DONE]\n\n");
    response_->End();
  }

  void Fail(const ApiError& error) override {
    if (!response_->begun()) {
      response_->Send(ErrorResponse(ErrorForm::kOpenAi, error));
      return;
    }
    response_->Write("data: " + ErrorBody(ErrorForm::kOpenAi, error) + "\n\n");
    response_->End();
  }

 private:
  Json LogProbs() {
    if (options_.tokenizer == nullptr || tokens_.empty()) return nullptr;
    return LegacyLogProbsJson(*options_.tokenizer, std::exchange(tokens_, {}), offset_);
  }
  void Write(Json choices) {
    response_->Write(SseData(Envelope(options_.identity, std::move(choices))));
  }
  void Text(std::string_view text) { Write(Json::array({Choice(text, nullptr, LogProbs())})); }

  std::shared_ptr<ResponseStream> response_;
  OpenAiReplyOptions options_;
  std::vector<generate::ChosenToken> tokens_;
  size_t offset_ = 0;
};

// A text, a list of one text, or a list of token ids.
void ReadPrompt(Fields& fields, engine::Request& request) {
  const Json* prompt = fields.Get("prompt");
  if (prompt != nullptr && prompt->is_array() && prompt->size() == 1 && !(*prompt)[0].is_number()) {
    prompt = &(*prompt)[0];
  }
  if (prompt != nullptr && prompt->is_string()) {
    request.text = prompt->get<std::string>();
    return;
  }
  if (prompt == nullptr || !prompt->is_array() || prompt->empty()) {
    fields.Refuse("prompt", "neither a text nor a list of token ids");
    return;
  }
  for (const Json& id : *prompt) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX) {
      fields.Refuse("prompt", "a list, but not of one text or of token ids");
      return;
    }
    request.ids.push_back(id.get<uint32_t>());
  }
}

}  // namespace

std::optional<ApiError> ReadOpenAiCompletionCall(const Json& body, const text::Tokenizer* tokenizer,
                                                 OpenAiCall& call) {
  Fields fields(body);
  engine::Request& request = call.request;
  ReadPrompt(fields, request);
  if (const auto suffix = fields.String("suffix"); suffix && !suffix->empty() && request.text) {
    FillIn(tokenizer, *suffix, request);
  }
  if (const Json* format = fields.Object("response_format")) {
    generate::ReplyShape shape;
    if (auto error = ReadFormat(*format, "response_format", shape)) return error;
    if (auto error = HoldReply(shape, request)) return error;
  }
  request.sampling = DefaultSampling(false, false);
  request.sampling.presence_penalty = 0;
  request.sampling.max_tokens = kDefaultTokens;
  ReadSampling(fields, request.sampling);
  ReadMaxTokens(fields, "max_tokens", request.sampling);
  request.sampling.stop = fields.Strings("stop");
  for (const char* name : {"n", "best_of"}) {
    if (fields.Integer(name).value_or(1) != 1) fields.Refuse(name, "only one answer is given");
  }
  if (fields.Bool("echo").value_or(false)) fields.Refuse("echo", "the prompt is not given back");
  if (const auto top = fields.Integer("logprobs")) {
    if (*top < 0 || *top > static_cast<int64_t>(generate::kMostAlternatives)) {
      fields.Refuse("logprobs", fmt::format("not from 0 to {}", generate::kMostAlternatives));
    } else {
      request.alternatives = static_cast<size_t>(*top);
    }
  }
  ReadDelivery(fields, call);
  return fields.error();
}

namespace {

std::string Whole(const OpenAiReplyOptions& options, const CollectedReply& reply,
                  const generate::GenerationResult& result) {
  size_t offset = 0;
  Json log_probs;
  if (options.tokenizer != nullptr) {
    log_probs = LegacyLogProbsJson(*options.tokenizer, reply.tokens, offset);
  }
  Json answer = Envelope(
      options.identity,
      Json::array({Choice(reply.text, OpenAiFinishReason(result, false), std::move(log_probs))}));
  answer["usage"] = OpenAiUsage(result);
  return Dump(answer);
}

std::unique_ptr<ReplyWriter> Stream(std::shared_ptr<ResponseStream> response,
                                    OpenAiReplyOptions options) {
  return std::make_unique<CompletionStream>(std::move(response), std::move(options));
}

void Answer(Service& service, const HttpRequest& request,
            const std::shared_ptr<ResponseStream>& response) {
  OpenAiCall call;
  const auto read = [&](const Json& body) {
    return ReadOpenAiCompletionCall(body, service.tokenizer(), call);
  };
  if (!ReadBody(request, *response, read)) return;
  AnswerOpenAiCall(service, request, response, std::move(call), {"cmpl-", Stream, Whole});
}

}  // namespace

void AddOpenAiCompletionRoutes(Router& router, Service& service) {
  AddGeneratingRoute(router, service, "/v1/completions", Answer);
}

}  // namespace slotstream::server
