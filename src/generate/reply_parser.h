// A reply as its reader wants it: reasoning, answer and tool calls, while tokens arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "generate/stop_matcher.h"
#include "text/detokenizer.h"
#include "text/think_splitter.h"
#include "text/tool_call_parser.h"

namespace slotstream::generate {

struct ReplyEvent {
  enum class Kind {
    kReasoning,      // text
    kText,           // text of the answer
    kCallBegin,      // id, name, declared
    kCallArguments,  // text: a fragment of the call's JSON arguments
    kCallEnd,
    kCallMalformed,  // text: the block as written; a call begun is void
  };
  Kind kind = Kind::kText;
  std::string text = {};
  std::string id = {};
  std::string name = {};
  bool declared = false;
};

struct ReplyOptions {
  bool thinking = false;                     // the prompt opened a reasoning block
  std::vector<std::string> stop;             // not looked for in reasoning
  const text::ToolSchemas* tools = nullptr;  // null: calls are plain text
  uint32_t first_call_id = 0;
};

// Tokens -> characters -> reasoning or answer -> stop strings -> tool calls. Every stage holds back
// only what it must, so the events' joined texts do not depend on how the reply was cut into
// tokens. Belongs to one thread; tokenizer and tools must outlive it.
class ReplyParser {
 public:
  ReplyParser(const text::Tokenizer& tokenizer, const ReplyOptions& options);

  // Appends what `id` makes known. After a stop string there is nothing more.
  Status Push(text::TokenId id, std::vector<ReplyEvent>& events);
  // Appends what was held back, at the end of the reply.
  void Flush(std::vector<ReplyEvent>& events);

  // The next token is still reasoning.
  bool in_reasoning() const { return splitter_ && !splitter_->closed(); }
  // The stop string that ended the answer.
  const std::optional<std::string>& stop() const { return stops_.matched(); }

 private:
  void Text(const std::string& text, std::vector<ReplyEvent>& events);
  void Answer(const std::string& text, std::vector<ReplyEvent>& events);
  void Deliver(const std::string& text, std::vector<ReplyEvent>& events);

  text::Detokenizer detokenizer_;
  std::optional<text::ThinkSplitter> splitter_;
  StopMatcher stops_;
  std::optional<text::ToolCallParser> calls_;
};

}  // namespace slotstream::generate
