// The types that a request declares for its tools' parameters, and how a parameter's text, which
// is all that the model writes, becomes a JSON value of that type.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "text/json_text.h"

namespace slotstream::text {

enum class ParameterType { kUnknown, kString, kInteger, kNumber, kBoolean, kArray, kObject };

// Immutable and thread-safe.
class ToolSchemas {
 public:
  // `tools`: a list of {"type": "function", "function": {"name", "parameters"}} or of the inner
  // objects; what has another form declares nothing.
  static ToolSchemas FromTools(const OrderedJson& tools);

  bool Declares(std::string_view function) const;

  // From `type` (a name, or a list with one that isn't null), `anyOf` (with one alternative that
  // isn't null), a local `$ref`, or else the values of `const` or `enum`; otherwise unknown.
  ParameterType TypeOf(std::string_view function, std::string_view parameter) const;

 private:
  using Types = std::unordered_map<std::string, ParameterType>;
  std::unordered_map<std::string, Types> functions_;
};

// The value that `text` means. Text that doesn't fit its type stays a string. Of an unknown type
// are JSON objects and lists, true, false, integers, and otherwise strings.
OrderedJson CoerceParameter(std::string_view text, ParameterType type);

}  // namespace slotstream::text
