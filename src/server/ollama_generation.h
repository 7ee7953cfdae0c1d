// The requests of Ollama's chat and generate.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/json_fields.h"
#include "text/tokenizer.h"

namespace slotstream::server {

struct OllamaCall {
  engine::Request request;
  std::string model;
  bool stream = true;
  bool load = false;    // nothing is asked
  bool unload = false;  // with keep_alive 0
};

// Read the bodies of POST /api/chat and /api/generate; an error refuses them. A model without a
// tokenizer has none.
std::optional<ApiError> ReadOllamaChat(const Json& body, OllamaCall& call);
std::optional<ApiError> ReadOllamaGenerate(const Json& body, const text::Tokenizer* tokenizer,
                                           OllamaCall& call);

}  // namespace slotstream::server
