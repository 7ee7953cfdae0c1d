// Requests in the form of Anthropic's messages.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/chat_draft.h"
#include "server/json_fields.h"

namespace slotstream::server {

struct AnthropicCall {
  engine::Request request;
  std::string model;
  bool stream = false;
};

// Unknown fields and blocks are no errors: agents send more than is documented.
std::optional<ApiError> ReadAnthropicCall(const Json& body, AnthropicCall& call);

}  // namespace slotstream::server
