// The chat template of qwen4_exp, rendered natively: a conversation becomes the prompt's text.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/chat_request.h"

namespace slotstream::text {

struct RenderedPrompt {
  std::string text;
  // Bytes that come from the request (messages, reasoning, tools, arguments) and not from the
  // template; sorted and apart. Passed to Tokenizer::Encode as `literal`, they keep control tokens
  // that a user wrote from acting; left out, they act, as with Hugging Face's.
  std::vector<TextRange> content;
};

// Errors: kInvalidArgument for what the template refuses: no messages; a system message that is
// not the first or has pictures; no user message that asks something (tool responses alone don't);
// an unknown reasoning_effort, unless thinking is off; a conversation that begins with a tool's
// answer; tools that are no list, or JSON nested too deep. With ChatRequest::any_order the order of
// messages is no error.
Result<RenderedPrompt> RenderChat(const ChatRequest& request);

}  // namespace slotstream::text
