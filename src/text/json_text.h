// JSON values as text, in the two styles that this program needs byte for byte.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace slotstream::text {

using OrderedJson = nlohmann::ordered_json;

// Deepest nesting that is written or kept; Python's json stops at about a thousand. A bound is
// needed because the depth of a request is its sender's choice and our stack is not.
inline constexpr size_t kDeepestJson = 200;

enum class JsonStyle {
  // json.dumps(value, ensure_ascii=False): ", " and ": ", floats as Python's repr writes them.
  kPython,
  // No spaces, and whole floats below 1e15 as integers: arguments of tool calls.
  kCompact,
};

bool DeeperThan(const OrderedJson& value, size_t depth);

// Keys in their order, non-ASCII text as it is. An integer beyond 64 bits was already made a float
// by the JSON parser. Errors: kInvalidArgument (nested deeper than kDeepestJson).
Result<std::string> WriteJson(const OrderedJson& value, JsonStyle style);

// Appends `raw` as the inside of a JSON string. Works piece by piece: the escaped pieces joined are
// the escaped whole.
void AppendEscaped(std::string_view raw, std::string& out);

}  // namespace slotstream::text
