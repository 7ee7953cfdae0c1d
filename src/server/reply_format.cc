#include "server/reply_format.h"

#include <fmt/format.h>

#include <string_view>

namespace slotstream::server {
namespace {

using Document = generate::ReplyShape::Document;

void UseSchema(const Json& schema, std::string place, generate::ReplyShape& shape) {
  shape.document = Document::kSchema;
  shape.schema = schema;
  shape.schema_place = std::move(place);
}

}  // namespace

std::optional<ApiError> ReadFormat(const Json& format, const std::string& place,
                                   generate::ReplyShape& shape) {
  Fields fields(format, place + ".");
  const std::string_view type = TextOf(fields.Get("type"));
  if (type == "json_object") {
    shape.document = Document::kAnyObject;
    shape.schema_place = place;
  } else if (type == "json_schema") {
    const Json* inner = fields.Object("json_schema");
    const std::string inner_place = inner == nullptr ? place : place + ".json_schema";
    Fields holder(inner == nullptr ? format : *inner, inner_place + ".");
    const Json* schema = holder.Get("schema");
    if (schema == nullptr || !schema->is_object()) {
      holder.Refuse("schema", "there is no schema");
      return holder.error();
    }
    UseSchema(*schema, inner_place + ".schema", shape);
  } else if (type != "text") {
    fields.Refuse("type", fmt::format("{:?} is none of text, json_object, json_schema", type));
  }
  return fields.error();
}

std::optional<ApiError> ReadOllamaFormat(const Json& format, generate::ReplyShape& shape) {
  if (format.is_object()) {
    UseSchema(format, "format", shape);
  } else if (format == "json") {
    shape.document = Document::kAnyObject;
    shape.schema_place = "format";
  } else if (format != "") {
    return InvalidRequest("format: neither \"json\" nor a JSON schema", "format");
  }
  return std::nullopt;
}

std::optional<ApiError> HoldReply(const generate::ReplyShape& shape, engine::Request& request) {
  if (shape.Free()) return std::nullopt;
  auto constraint = generate::MakeConstraint(shape);
  if (!constraint) {
    // Whatever the code, the request is at fault and will always be.
    const bool document = shape.document != Document::kNone;
    return InvalidRequest(constraint.error().message, document ? shape.schema_place : "tools");
  }
  request.constraint = std::move(*constraint);
  return std::nullopt;
}

}  // namespace slotstream::server
