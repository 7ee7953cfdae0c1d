#include "generate/reply_parser.h"

#include <utility>

namespace slotstream::generate {
namespace {

ReplyEvent::Kind KindOf(text::ToolCallEvent::Kind kind) {
  switch (kind) {
    case text::ToolCallEvent::Kind::kText:
      return ReplyEvent::Kind::kText;
    case text::ToolCallEvent::Kind::kBegin:
      return ReplyEvent::Kind::kCallBegin;
    case text::ToolCallEvent::Kind::kArguments:
      return ReplyEvent::Kind::kCallArguments;
    case text::ToolCallEvent::Kind::kEnd:
      return ReplyEvent::Kind::kCallEnd;
    case text::ToolCallEvent::Kind::kMalformed:
      return ReplyEvent::Kind::kCallMalformed;
  }
  return ReplyEvent::Kind::kText;
}

void AppendCalls(std::vector<text::ToolCallEvent> parsed, std::vector<ReplyEvent>& events) {
  for (text::ToolCallEvent& event : parsed) {
    events.push_back({KindOf(event.kind), std::move(event.text), std::move(event.id),
                      std::move(event.name), event.declared});
  }
}

}  // namespace

ReplyParser::ReplyParser(const text::Tokenizer& tokenizer, const ReplyOptions& options)
    : detokenizer_(tokenizer, /*skip_special=*/true), stops_(options.stop) {
  if (options.thinking) splitter_.emplace();
  if (options.tools != nullptr) calls_.emplace(*options.tools, options.first_call_id);
}

Status ReplyParser::Push(text::TokenId id, std::vector<ReplyEvent>& events) {
  SS_ASSIGN_OR_RETURN(std::string text, detokenizer_.Push(id));
  Text(text, events);
  return {};
}

void ReplyParser::Flush(std::vector<ReplyEvent>& events) {
  Text(detokenizer_.Flush(), events);
  if (splitter_) {
    text::ThinkSplitter::Delta delta = splitter_->Flush();
    if (!delta.reasoning.empty()) {
      events.push_back({.kind = ReplyEvent::Kind::kReasoning, .text = std::move(delta.reasoning)});
    }
    Answer(delta.content, events);
  }
  Deliver(stops_.Flush(), events);
  if (calls_) AppendCalls(calls_->Flush(), events);
}

void ReplyParser::Text(const std::string& text, std::vector<ReplyEvent>& events) {
  if (text.empty()) return;
  if (!splitter_) {
    Answer(text, events);
    return;
  }
  text::ThinkSplitter::Delta delta = splitter_->Push(text);
  if (!delta.reasoning.empty()) {
    events.push_back({.kind = ReplyEvent::Kind::kReasoning, .text = std::move(delta.reasoning)});
  }
  Answer(delta.content, events);
}

void ReplyParser::Answer(const std::string& text, std::vector<ReplyEvent>& events) {
  if (!text.empty()) Deliver(stops_.Push(text), events);
}

void ReplyParser::Deliver(const std::string& text, std::vector<ReplyEvent>& events) {
  if (text.empty()) return;
  if (calls_) {
    AppendCalls(calls_->Push(text), events);
  } else {
    events.push_back({.kind = ReplyEvent::Kind::kText, .text = text});
  }
}

}  // namespace slotstream::generate
