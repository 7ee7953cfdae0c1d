// Reads members of a request's JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/api_error.h"
#include "text/json_text.h"

namespace slotstream::server {

using Json = text::OrderedJson;

// What the JSON of one request may cost beyond its bytes, texts with JSON in them included.
struct JsonBudget {
  // In numbers. A number takes 50 bytes and so this is 32 MiB at most; a text counts for two, an
  // object or list for eight. Token ids of the longest prompts are half as many.
  size_t values = size_t{1} << 19;
  // An object that keeps its members' order compares each new name with all before it: some
  // nanoseconds each, so half a second. One object may have 11,000 members.
  uint64_t comparisons = uint64_t{1} << 26;
};

// The body as an object. kInvalidArgument: no JSON, no object, broken UTF-8; nested deeper than
// text::kDeepestJson or beyond a JsonBudget (both seen before anything is built from it).
Result<Json> ParseBody(std::string_view body);

// The same within what is left of `budget`, of which it takes its part.
Result<Json> ParseObject(std::string_view text, JsonBudget& budget);

// The members of one object by name. null is the same as absent. The first member of a wrong type
// is remembered as the error, and its value is as if it were absent; so all can be read first and
// error() looked at once. The object must outlive this.
class Fields {
 public:
  // `where` stands before the names in messages, e.g. "messages[2].".
  explicit Fields(const Json& object, std::string where = {})
      : object_(object), where_(std::move(where)) {}

  const Json* Get(const char* name) const;
  std::optional<double> Number(const char* name);
  std::optional<int64_t> Integer(const char* name);  // 3.0 is one; beyond 64 bits: the nearest
  std::optional<bool> Bool(const char* name);
  std::optional<std::string> String(const char* name);
  std::vector<std::string> Strings(const char* name);  // a string, or a list of them
  const Json* Object(const char* name);
  const Json* List(const char* name);

  void Refuse(std::string_view name, std::string_view what);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  std::string where_;
  std::optional<ApiError> error_;
};

// The text of a JSON string, or nothing.
std::string_view TextOf(const Json* value);

// JSON on one line; text that is no UTF-8 is replaced.
std::string Dump(const Json& value);

}  // namespace slotstream::server
