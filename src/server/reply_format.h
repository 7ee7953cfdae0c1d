// Structured output as the dialects ask for it, and the constraint of a request.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"
#include "generate/reply_shape.h"
#include "server/api_error.h"
#include "server/json_fields.h"

namespace slotstream::server {

// Reads a format object: its `type` is text, json_object, or json_schema with the schema in
// `schema` or in `json_schema.schema`. `place`: its name in messages, e.g. "text.format".
std::optional<ApiError> ReadFormat(const Json& format, const std::string& place,
                                   generate::ReplyShape& shape);

// Ollama's: "json", a schema, or an empty text for none.
std::optional<ApiError> ReadOllamaFormat(const Json& format, generate::ReplyShape& shape);

// Holds the request's reply to the shape. An error names the place in the schema.
std::optional<ApiError> HoldReply(const generate::ReplyShape& shape, engine::Request& request);

}  // namespace slotstream::server
