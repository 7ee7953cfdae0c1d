// A request's prompt as ids.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/reply_memory.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace slotstream::engine {

// `replies`, which may be null, gives replies that come back as text the ids that they were made
// of, where the model reads the same after parsing: docs/PREFIX_CACHE.md has the rule. Any thread.
// Errors: those of the chat template and the tokenizer.
Result<EncodedPrompt> EncodePrompt(const text::Tokenizer& tokenizer, const Request& request,
                                   ReplyMemory* replies = nullptr);

// The ids of request.reply_start, with which the prompt ends. Any thread.
Result<std::vector<uint32_t>> EncodeReplyStart(const text::Tokenizer& tokenizer,
                                               const Request& request);

}  // namespace slotstream::engine
