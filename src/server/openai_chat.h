// The request of OpenAI's chat completions.
#pragma once

#include <optional>

#include "server/api_error.h"
#include "server/json_fields.h"
#include "server/openai_call.h"

namespace slotstream::server {

// Reads the body of POST /v1/chat/completions; an error refuses it.
std::optional<ApiError> ReadOpenAiChatCall(const Json& body, OpenAiCall& call);

}  // namespace slotstream::server
