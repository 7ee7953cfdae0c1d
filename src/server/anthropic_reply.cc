#include "server/anthropic_reply.h"

#include <span>
#include <utility>

#include "checkpoint/sha256.h"
#include "server/sse.h"

namespace slotstream::server {
namespace {

using Kind = generate::ReplyEvent::Kind;

// A token that stands for the reasoning. Clients send it back and check that it isn't empty; what
// counts is the text beside it.
std::string Signature(const std::string& reasoning) {
  const auto digest = checkpoint::Sha256Hex(std::as_bytes(std::span(reasoning)));
  return "slotstream-" + digest.value_or("none").substr(0, 32);
}

// "call_0123" of ours is "toolu_0123" of Anthropic's.
std::string ToolUseId(const std::string& id) {
  return id.starts_with("call_") ? "toolu_" + id.substr(5) : id;
}

std::string_view StopReason(const generate::GenerationResult& result, bool has_calls) {
  switch (result.reason) {
    case generate::FinishReason::kLength:
      return "max_tokens";
    case generate::FinishReason::kContext:
      return "model_context_window_exceeded";
    case generate::FinishReason::kStopString:
      return "stop_sequence";
    case generate::FinishReason::kStopToken:
    case generate::FinishReason::kCall:
      break;
  }
  return has_calls ? "tool_use" : "end_turn";
}

Json StopSequence(const generate::GenerationResult& result) {
  if (result.reason != generate::FinishReason::kStopString) return nullptr;
  return result.stop_string;
}

// Anthropic counts what the cache gave beside the input, not in it. What goes into the cache costs
// nobody anything here, so none is counted as its creation.
Json Usage(const PromptCount& prompt, size_t reply_tokens) {
  return {{"input_tokens", prompt.tokens - prompt.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", prompt.cached},
          {"output_tokens", reply_tokens}};
}

Json Usage(const generate::GenerationResult& result) {
  return Usage({result.prompt_tokens, result.cached_tokens}, result.output.size());
}

Json Envelope(const AnthropicIdentity& identity) {
  return {{"id", identity.id},       {"type", "message"},        {"role", "assistant"},
          {"model", identity.model}, {"content", Json::array()}, {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

}  // namespace

Json AnthropicAnswer(const AnthropicIdentity& identity, const CollectedReply& reply,
                     const generate::GenerationResult& result) {
  Json answer = Envelope(identity);
  Json& content = answer["content"];
  if (!reply.reasoning.empty()) {
    content.push_back({{"type", "thinking"},
                       {"thinking", reply.reasoning},
                       {"signature", Signature(reply.reasoning)}});
  }
  if (!reply.text.empty()) content.push_back({{"type", "text"}, {"text", reply.text}});
  for (const CollectedCall& call : reply.calls) {
    auto input = ParseBody(call.arguments);
    content.push_back({{"type", "tool_use"},
                       {"id", ToolUseId(call.id)},
                       {"name", call.name},
                       {"input", input ? *std::move(input) : Json::object()}});
  }
  answer["stop_reason"] = StopReason(result, !reply.calls.empty());
  answer["stop_sequence"] = StopSequence(result);
  answer["usage"] = Usage(result);
  return answer;
}

void AnthropicStream::Send(std::string_view name, Json data) {
  Json event = {{"type", name}};
  event.update(data);
  response_->Write(SseEvent(name, event));
}

void AnthropicStream::Begin(const PromptCount& prompt) {
  response_->Begin(kEventStream);
  Json message = Envelope(identity_);
  message["usage"] = Usage(prompt, 0);
  Send("message_start", {{"message", std::move(message)}});
  Send("ping", Json::object());
}

void AnthropicStream::Open(Block block, Json content) {
  Close();
  open_ = block;
  Send("content_block_start", {{"index", ++index_}, {"content_block", std::move(content)}});
}

void AnthropicStream::OpenIfNeeded(Block block) {
  if (open_ == block) return;
  if (block == Block::kThinking) {
    Open(block, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
  } else {
    Open(block, {{"type", "text"}, {"text", ""}});
  }
}

void AnthropicStream::Close() {
  if (open_ == Block::kNone) return;
  if (open_ == Block::kThinking) {
    Send(
        "content_block_delta",
        {{"index", index_},
         {"delta",
          {{"type", "signature_delta"}, {"signature", Signature(std::exchange(reasoning_, {}))}}}});
  }
  Send("content_block_stop", {{"index", index_}});
  open_ = Block::kNone;
}

void AnthropicStream::Delta(std::string_view text) {
  Json delta;
  switch (open_) {
    case Block::kNone:
      return;
    case Block::kThinking:
      delta = {{"type", "thinking_delta"}, {"thinking", text}};
      break;
    case Block::kText:
      delta = {{"type", "text_delta"}, {"text", text}};
      break;
    case Block::kToolUse:
      delta = {{"type", "input_json_delta"}, {"partial_json", text}};
      break;
  }
  Send("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
}

void AnthropicStream::Event(const generate::ReplyEvent& event) {
  switch (event.kind) {
    case Kind::kReasoning:
      OpenIfNeeded(Block::kThinking);
      reasoning_ += event.text;
      Delta(event.text);
      break;
    case Kind::kText:
      OpenIfNeeded(Block::kText);
      Delta(event.text);
      break;
    case Kind::kCallBegin:
      Open(Block::kToolUse, {{"type", "tool_use"},
                             {"id", ToolUseId(event.id)},
                             {"name", event.name},
                             {"input", Json::object()}});
      call_open_ = true;
      ++calls_;
      break;
    case Kind::kCallArguments:
      Delta(event.text);
      break;
    case Kind::kCallEnd:
      Close();
      call_open_ = false;
      break;
    case Kind::kCallMalformed:
      // A call that was begun stays as incomplete as it is; the client sees that it doesn't parse.
      if (std::exchange(call_open_, false)) {
        Close();
        break;
      }
      OpenIfNeeded(Block::kText);
      Delta(event.text);
      break;
  }
}

void AnthropicStream::KeepAlive() {
  if (open_ == Block::kNone) {
    OpenIfNeeded(identity_.thinking && index_ < 0 ? Block::kThinking : Block::kText);
  }
  Delta("");
}

void AnthropicStream::End(const generate::GenerationResult& result) {
  Close();
  Send(
      "message_delta",
      {{"delta",
        {{"stop_reason", StopReason(result, calls_ > 0)}, {"stop_sequence", StopSequence(result)}}},
       {"usage", Usage(result)}});
  Send("message_stop", Json::object());
  response_->End();
}

void AnthropicStream::Fail(const ApiError& error) {
  if (!response_->begun()) {
    response_->Send(ErrorResponse(ErrorForm::kAnthropic, error));
    return;
  }
  response_->Write("event: error\ndata: " + ErrorBody(ErrorForm::kAnthropic, error) + "\n\n");
  response_->End();
}

}  // namespace slotstream::server
