// Probabilities of tokens as JSON.
#pragma once

#include <vector>

#include "generate/generator.h"
#include "server/json_fields.h"
#include "text/tokenizer.h"

namespace slotstream::server {

// [{"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}], the form of
// OpenAI's chat, which Ollama took over.
Json LogProbsJson(const text::Tokenizer& tokenizer,
                  const std::vector<generate::ChosenToken>& tokens);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, the form of OpenAI's completions.
Json LegacyLogProbsJson(const text::Tokenizer& tokenizer,
                        const std::vector<generate::ChosenToken>& tokens, size_t& offset);

}  // namespace slotstream::server
