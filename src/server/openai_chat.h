// The request of OpenAI's chat completions.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/json_fields.h"

namespace slotstream::server {

struct OpenAiChatCall {
  engine::Request request;
  std::string model;
  bool stream = false;
  bool include_usage = false;
};

// Reads the body of POST /v1/chat/completions; an error refuses it.
std::optional<ApiError> ReadOpenAiChatCall(const Json& body, OpenAiChatCall& call);

}  // namespace slotstream::server
