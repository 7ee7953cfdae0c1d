#include "server/ollama_reply.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "server/chat_draft.h"
#include "server/log_probs.h"

namespace slotstream::server {
namespace {

using Kind = generate::ReplyEvent::Kind;

Json CallJson(const CollectedCall& call, int index) {
  const Json arguments = call.arguments;
  JsonBudget budget;
  return {
      {"id", call.id},
      {"function",
       {{"index", index}, {"name", call.name}, {"arguments", ReadArguments(&arguments, budget)}}}};
}

// Ends a piece as the last one.
void AddEnd(const OllamaReplyOptions& options, const generate::GenerationResult& result,
            Json& piece) {
  piece["done"] = true;
  piece["done_reason"] = RanOut(result) ? "length" : "stop";
  piece["total_duration"] = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::steady_clock::now() - options.start)
                                .count();
  piece["load_duration"] = 0;
  piece["prompt_eval_count"] = result.prompt_tokens;
  piece["prompt_eval_duration"] = result.prefill_nanos;
  piece["eval_count"] = result.output.size();
  piece["eval_duration"] = result.decode_nanos;
}

}  // namespace

std::string OllamaTime() {
  const auto now = std::chrono::system_clock::now();
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), micros % 1'000'000);
}

Json OllamaPiece(const OllamaReplyOptions& options, std::string_view text,
                 std::string_view thinking) {
  Json piece = {{"model", options.model}, {"created_at", OllamaTime()}};
  if (options.chat) {
    piece["message"] = {{"role", "assistant"}, {"content", text}};
    if (!thinking.empty()) piece["message"]["thinking"] = thinking;
  } else {
    piece["response"] = text;
    if (!thinking.empty()) piece["thinking"] = thinking;
  }
  piece["done"] = false;
  return piece;
}

Json OllamaLoadAnswer(const OllamaReplyOptions& options, bool unload) {
  Json piece = OllamaPiece(options, "");
  piece["done"] = true;
  piece["done_reason"] = unload ? "unload" : "load";
  return piece;
}

Json OllamaAnswer(const OllamaReplyOptions& options, const CollectedReply& reply,
                  const generate::GenerationResult& result) {
  Json answer = OllamaPiece(options, reply.text, reply.reasoning);
  for (size_t i = 0; i < reply.calls.size(); ++i) {
    answer["message"]["tool_calls"].push_back(CallJson(reply.calls[i], static_cast<int>(i)));
  }
  if (options.tokenizer != nullptr) {
    answer["logprobs"] = LogProbsJson(*options.tokenizer, reply.tokens);
  }
  AddEnd(options, result, answer);
  return answer;
}

void OllamaStream::Line(Json line) { response_->Write(Dump(line) + "\n"); }

void OllamaStream::Begin(const PromptCount&) { response_->Begin("application/x-ndjson"); }

void OllamaStream::Token(const generate::ChosenToken& token) {
  if (token.in_answer) tokens_.push_back(token);
}

void OllamaStream::Event(const generate::ReplyEvent& event) {
  const auto text = [this](std::string_view piece) {
    Json line = OllamaPiece(options_, piece);
    if (options_.tokenizer != nullptr && !tokens_.empty()) {
      line["logprobs"] = LogProbsJson(*options_.tokenizer, std::exchange(tokens_, {}));
    }
    Line(std::move(line));
  };
  switch (event.kind) {
    case Kind::kReasoning:
      Line(OllamaPiece(options_, "", event.text));
      break;
    case Kind::kText:
      text(event.text);
      break;
    case Kind::kCallBegin:
      call_ = {event.id, event.name, ""};
      break;
    case Kind::kCallArguments:
      call_.arguments += event.text;
      break;
    case Kind::kCallEnd: {
      Json line = OllamaPiece(options_, "");
      line["message"]["tool_calls"] = Json::array({CallJson(call_, calls_++)});
      Line(std::move(line));
      break;
    }
    case Kind::kCallMalformed:
      text(event.text);
      break;
  }
}

void OllamaStream::KeepAlive() { Line(OllamaPiece(options_, "")); }

void OllamaStream::End(const generate::GenerationResult& result) {
  Json last = OllamaPiece(options_, "");
  AddEnd(options_, result, last);
  Line(std::move(last));
  response_->End();
}

void OllamaStream::Fail(const ApiError& error) {
  if (!response_->begun()) {
    response_->Send(ErrorResponse(ErrorForm::kOllama, error));
    return;
  }
  response_->Write(ErrorBody(ErrorForm::kOllama, error) + "\n");
  response_->End();
}

}  // namespace slotstream::server
