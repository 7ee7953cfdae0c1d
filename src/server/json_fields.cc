#include "server/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace slotstream::server {
namespace {

// In numbers, as JsonBudget counts: what they take as JSON and as what is made of it.
constexpr size_t kTextCost = 2, kContainerCost = 8;

// Looks at the text without building anything: a body of 32 MiB of brackets would become gigabytes,
// and one of 2 MiB of an object's members hours.
Status CheckCost(std::string_view json, JsonBudget& budget) {
  const auto too_much = [](std::string_view what) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("the body {}", what));
  };
  std::array<uint64_t, text::kDeepestJson + 1> members{};  // so far, of the object at each depth
  size_t depth = 0, values = 1;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
      values += kTextCost - 1;
    } else if (c == '{' || c == '[') {
      if (++depth > text::kDeepestJson) {
        return too_much(fmt::format("is nested deeper than {} levels", text::kDeepestJson));
      }
      members[depth] = 0;
      values += kContainerCost;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    } else if (c == ',') {
      ++values;
    } else if (c == ':') {
      const uint64_t before = members[depth]++;
      if (before > budget.comparisons) return too_much("has objects with too many members");
      budget.comparisons -= before;
    }
    if (values > budget.values) return too_much("has too many values");
  }
  budget.values -= values;
  return {};
}

}  // namespace

Result<Json> ParseObject(std::string_view text, JsonBudget& budget) {
  SS_RETURN_IF_ERROR(CheckCost(text, budget));
  try {
    Json json = Json::parse(text);
    if (json.is_object()) return json;
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("the body is no JSON: {}", error.what()));
  }
  return Fail(ErrorCode::kInvalidArgument, "the body is no JSON object");
}

Result<Json> ParseBody(std::string_view body) {
  JsonBudget budget;
  return ParseObject(body, budget);
}

const Json* Fields::Get(const char* name) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::Refuse(std::string_view name, std::string_view what) {
  if (error_) return;
  const std::string path = where_ + std::string(name);
  error_ = InvalidRequest(fmt::format("{}: {}", path, what), path);
}

std::optional<double> Fields::Number(const char* name) {
  const Json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  Refuse(name, "not a number");
  return std::nullopt;
}

std::optional<int64_t> Fields::Integer(const char* name) {
  const Json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned()) {
    return static_cast<int64_t>(std::min<uint64_t>(value->get<uint64_t>(), INT64_MAX));
  }
  if (value->is_number_integer()) return value->get<int64_t>();
  if (value->is_number_float()) {
    const double number = value->get<double>();
    // 2^63: the first number beyond.
    if (number == std::trunc(number)) {
      if (number >= 0x1p63) return INT64_MAX;
      if (number < -0x1p63) return INT64_MIN;
      return static_cast<int64_t>(number);
    }
  }
  Refuse(name, "not a whole number");
  return std::nullopt;
}

std::optional<bool> Fields::Bool(const char* name) {
  const Json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Refuse(name, "neither true nor false");
  return std::nullopt;
}

std::optional<std::string> Fields::String(const char* name) {
  const Json* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Refuse(name, "not a string");
  return std::nullopt;
}

std::vector<std::string> Fields::Strings(const char* name) {
  std::vector<std::string> strings;
  const Json* value = Get(name);
  if (value == nullptr) return strings;
  if (value->is_string()) return {value->get<std::string>()};
  if (value->is_array()) {
    for (const Json& item : *value) {
      if (item.is_string()) {
        strings.push_back(item.get<std::string>());
      } else {
        Refuse(name, "holds something that is no string");
      }
    }
    return strings;
  }
  Refuse(name, "neither a string nor a list of strings");
  return strings;
}

const Json* Fields::Object(const char* name) {
  const Json* value = Get(name);
  if (value == nullptr || value->is_object()) return value;
  Refuse(name, "not an object");
  return nullptr;
}

const Json* Fields::List(const char* name) {
  const Json* value = Get(name);
  if (value == nullptr || value->is_array()) return value;
  Refuse(name, "not a list");
  return nullptr;
}

std::string_view TextOf(const Json* value) {
  if (value == nullptr || !value->is_string()) return {};
  return value->get_ref<const std::string&>();
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace slotstream::server
