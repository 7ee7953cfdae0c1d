#include "server/openai_reply.h"

#include <utility>

#include "server/log_probs.h"
#include "server/sse.h"

namespace slotstream::server {

using Kind = generate::ReplyEvent::Kind;

Json OpenAiUsage(const generate::GenerationResult& result) {
  return {{"prompt_tokens", result.prompt_tokens},
          {"completion_tokens", result.output.size()},
          {"total_tokens", result.prompt_tokens + result.output.size()},
          {"prompt_tokens_details", {{"cached_tokens", result.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", result.reasoning_tokens}}}};
}

std::string_view OpenAiFinishReason(const generate::GenerationResult& result, bool has_calls) {
  if (RanOut(result)) return "length";
  return has_calls ? "tool_calls" : "stop";
}

Json OpenAiChatAnswer(const OpenAiReplyOptions& options, const CollectedReply& reply,
                      const generate::GenerationResult& result) {
  Json message = {{"role", "assistant"}, {"content", reply.text}};
  if (reply.text.empty() && !reply.calls.empty()) message["content"] = nullptr;
  if (!reply.reasoning.empty()) message["reasoning_content"] = reply.reasoning;
  for (const CollectedCall& call : reply.calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  Json choice = {{"index", 0},
                 {"message", std::move(message)},
                 {"logprobs", nullptr},
                 {"finish_reason", OpenAiFinishReason(result, !reply.calls.empty())}};
  if (options.tokenizer != nullptr) {
    choice["logprobs"] = {{"content", LogProbsJson(*options.tokenizer, reply.tokens)}};
  }
  return {{"id", options.identity.id},
          {"object", "chat.completion"},
          {"created", options.identity.created},
          {"model", options.identity.model},
          {"choices", Json::array({std::move(choice)})},
          {"usage", OpenAiUsage(result)}};
}

Json OpenAiChatStream::Chunk() const {
  return {{"id", options_.identity.id},
          {"object", "chat.completion.chunk"},
          {"created", options_.identity.created},
          {"model", options_.identity.model},
          {"choices", Json::array()}};
}

Json OpenAiChatStream::TakeLogProbs() {
  if (options_.tokenizer == nullptr || tokens_.empty()) return nullptr;
  return {{"content", LogProbsJson(*options_.tokenizer, std::exchange(tokens_, {}))}};
}

void OpenAiChatStream::Delta(Json delta) {
  Json chunk = Chunk();
  const bool text = delta.contains("content");
  chunk["choices"].push_back({{"index", 0},
                              {"delta", std::move(delta)},
                              {"logprobs", text ? TakeLogProbs() : Json()},
                              {"finish_reason", nullptr}});
  response_->Write(SseData(chunk));
}

void OpenAiChatStream::Begin(const PromptCount&) {
  response_->Begin(kEventStream);
  Delta({{"role", "assistant"}, {"content", ""}});
}

void OpenAiChatStream::Token(const generate::ChosenToken& token) {
  if (token.in_answer) tokens_.push_back(token);
}

void OpenAiChatStream::Event(const generate::ReplyEvent& event) {
  switch (event.kind) {
    case Kind::kReasoning:
      Delta({{"reasoning_content", event.text}});
      break;
    case Kind::kText:
      Delta({{"content", event.text}});
      break;
    case Kind::kCallBegin:
      call_open_ = true;
      Delta({{"tool_calls",
              Json::array({{{"index", calls_++},
                            {"id", event.id},
                            {"type", "function"},
                            {"function", {{"name", event.name}, {"arguments", ""}}}}})}});
      break;
    case Kind::kCallArguments:
      Delta({{"tool_calls",
              Json::array({{{"index", calls_ - 1}, {"function", {{"arguments", event.text}}}}})}});
      break;
    case Kind::kCallEnd:
      call_open_ = false;
      break;
    case Kind::kCallMalformed:
      if (!std::exchange(call_open_, false)) Delta({{"content", event.text}});
      break;
  }
}

void OpenAiChatStream::KeepAlive() { Delta({{"content", ""}}); }

void OpenAiChatStream::End(const generate::GenerationResult& result) {
  Json chunk = Chunk();
  chunk["choices"].push_back({{"index", 0},
                              {"delta", Json::object()},
                              {"logprobs", TakeLogProbs()},
                              {"finish_reason", OpenAiFinishReason(result, calls_ > 0)}});
  response_->Write(SseData(chunk));
  if (options_.include_usage) {
    Json usage = Chunk();
    usage["usage"] = OpenAiUsage(result);
    response_->Write(SseData(usage));
  }
  response_->Write("data: [DONE]\n\n");
  response_->End();
}

void OpenAiChatStream::Fail(const ApiError& error) {
  if (!response_->begun()) {
    response_->Send(ErrorResponse(ErrorForm::kOpenAi, error));
    return;
  }
  response_->Write("data: " + ErrorBody(ErrorForm::kOpenAi, error) + "\n\n");
  response_->End();
}

}  // namespace slotstream::server
