// The chat template of qwen4_exp, rendered natively: a conversation becomes the prompt's text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/chat_request.h"

namespace slotstream::text {

// An assistant's turn as rendered: the message's index, and the bytes from the tag that opens the
// reasoning block to the tag that ends the turn. A turn without a block is none of these.
struct RenderedReply {
  size_t message = 0;
  TextRange range;
};

struct RenderedPrompt {
  std::string text;
  // Bytes that come from the request (messages, reasoning, tools, arguments) and not from the
  // template; sorted and apart. Passed to Tokenizer::Encode as `literal`, they keep control tokens
  // that a user wrote from acting; left out, they act, as with Hugging Face's.
  std::vector<TextRange> content;
  std::vector<RenderedReply> replies;
  // Ends of the parts that other conversations may begin with too: the tools, the system turn.
  std::vector<size_t> shared_ends;
};

// What opens a reply's reasoning block, and how a block looks that has no reasoning.
inline constexpr std::string_view kReasoningOpen = "<think>\n";
inline constexpr std::string_view kReasoningNone = "<think>\n\n</think>\n\n";

// What is left of `text` when the template trims it: white space as Python knows it goes from both
// ends.
TextRange Trimmed(std::string_view text);

// Errors: kInvalidArgument for what the template refuses: no messages; a system message that is
// not the first or has pictures; no user message that asks something (tool responses alone don't);
// an unknown reasoning_effort, unless thinking is off; a conversation that begins with a tool's
// answer; tools that are no list, or JSON nested too deep. With ChatRequest::any_order the order of
// messages is no error.
Result<RenderedPrompt> RenderChat(const ChatRequest& request);

}  // namespace slotstream::text
