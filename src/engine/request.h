// What the engine is asked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generate/sampling_params.h"
#include "state/prefix_cache.h"
#include "state/reply_note.h"
#include "text/added_tokens.h"
#include "text/chat_request.h"

namespace slotstream::generate {
struct Constraint;
}

namespace slotstream::engine {

// What the prefix cache wants to know of a prompt.
struct PromptNotes {
  std::vector<size_t> shared_ends;  // places where parts end that other conversations may share
  std::vector<state::ReplyNote> replies;  // replies of ours, with the ids that they were made of
};

struct EncodedPrompt {
  std::vector<uint32_t> ids;
  PromptNotes notes;
};

// A request. `chat`, `text` or `ids` is the prompt; where ids are given beside another they are
// what EncodePrompt made of it, and `notes` too.
struct Request {
  std::optional<text::ChatRequest> chat;  // through the chat template
  std::optional<std::string> text;        // as it is; control tokens in it act
  std::vector<uint32_t> ids;              // as they are
  PromptNotes notes;
  // For a prompt by text or ids: it ends inside a reasoning block.
  bool opens_thinking = false;
  generate::SamplingParams sampling;
  uint32_t first_call_id = 0;  // see text::ToolCallParser
  bool single_call = false;    // see generate::Generation, as for the next
  std::optional<size_t> alternatives;
  // How the reply must begin, appended to the prompt and delivered as part of the reply, e.g. the
  // head of a tool call. Control tokens in it act, but not within `reply_literal` (sorted, apart).
  std::string reply_start;
  std::vector<text::TextRange> reply_literal;
  // What the reply is held to, `reply_start` included; may be null. See generate::MakeConstraint.
  std::shared_ptr<const generate::Constraint> constraint;
  state::PrefixHints hints;
  bool keep_off_disk = false;  // nothing of it goes to the prefix cache on disk
};

}  // namespace slotstream::engine
