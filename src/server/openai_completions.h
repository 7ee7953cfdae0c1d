// The request of OpenAI's completions.
#pragma once

#include <optional>

#include "server/api_error.h"
#include "server/json_fields.h"
#include "server/openai_call.h"
#include "text/tokenizer.h"

namespace slotstream::server {

// Reads the body of POST /v1/completions; an error refuses it. A model without a tokenizer has
// none.
std::optional<ApiError> ReadOpenAiCompletionCall(const Json& body, const text::Tokenizer* tokenizer,
                                                 OpenAiCall& call);

}  // namespace slotstream::server
