// The request of OpenAI's completions.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/json_fields.h"
#include "text/tokenizer.h"

namespace slotstream::server {

struct OpenAiCompletionCall {
  engine::Request request;
  std::string model;
  bool stream = false;
  bool include_usage = false;
};

// Reads the body of POST /v1/completions; an error refuses it. A model without a tokenizer has
// none.
std::optional<ApiError> ReadOpenAiCompletionCall(const Json& body, const text::Tokenizer* tokenizer,
                                                 OpenAiCompletionCall& call);

}  // namespace slotstream::server
