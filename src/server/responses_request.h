// Requests in the form of OpenAI's responses.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/json_fields.h"

namespace slotstream::server {

// How a tool of the request is called in the answer.
struct ResponsesTool {
  std::string name;
  std::string name_space;  // of a tool that came in a bundle
  bool custom = false;     // takes free text instead of JSON
};

// By the name that the model sees.
using ResponsesTools = std::map<std::string, ResponsesTool, std::less<>>;

struct ResponsesCall {
  engine::Request request;
  std::string model;
  bool stream = false;
  bool empty = false;  // nothing is asked: the client wants the model loaded
  ResponsesTools tools;
  Json echo = Json::object();  // settings that the answer repeats
};

// Unknown fields, items and tools are no errors, except where ignoring one would lose the
// conversation: previous_response_id, conversation, background.
std::optional<ApiError> ReadResponsesCall(const Json& body, ResponsesCall& call);

}  // namespace slotstream::server
