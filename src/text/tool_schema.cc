#include "text/tool_schema.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <exception>
#include <optional>

namespace slotstream::text {
namespace {

// References and alternatives followed before a schema counts as unknown; ends cycles.
constexpr int kMostSteps = 16;

const OrderedJson* Member(const OrderedJson& value, const char* key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

std::string_view Text(const OrderedJson* value) {
  if (value == nullptr || !value->is_string()) return {};
  return value->get_ref<const std::string&>();
}

ParameterType TypeNamed(std::string_view name) {
  if (name == "string") return ParameterType::kString;
  if (name == "integer") return ParameterType::kInteger;
  if (name == "number") return ParameterType::kNumber;
  if (name == "boolean") return ParameterType::kBoolean;
  if (name == "array") return ParameterType::kArray;
  if (name == "object") return ParameterType::kObject;
  return ParameterType::kUnknown;
}

// The only element of a list for which `is_null` is false.
template <typename IsNull>
const OrderedJson* OnlyOther(const OrderedJson& list, IsNull is_null) {
  const OrderedJson* only = nullptr;
  if (!list.is_array()) return nullptr;
  for (const OrderedJson& element : list) {
    if (is_null(element)) continue;
    if (only != nullptr) return nullptr;
    only = &element;
  }
  return only;
}

// What a local reference ("#/$defs/x") names within `root`.
const OrderedJson* Referenced(const OrderedJson& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  try {
    const OrderedJson::json_pointer pointer{std::string(reference.substr(1))};
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const std::exception&) {  // not a pointer
    return nullptr;
  }
}

ParameterType TypeOfValue(const OrderedJson& value) {
  if (value.is_string()) return ParameterType::kString;
  if (value.is_number_float()) return ParameterType::kNumber;
  if (value.is_number()) return ParameterType::kInteger;
  if (value.is_boolean()) return ParameterType::kBoolean;
  if (value.is_array()) return ParameterType::kArray;
  return value.is_object() ? ParameterType::kObject : ParameterType::kUnknown;
}

// The type of all values that aren't null; whole numbers are numbers beside others.
ParameterType CommonType(const OrderedJson& values) {
  std::optional<ParameterType> common;
  for (const OrderedJson& value : values) {
    if (value.is_null()) continue;
    ParameterType type = TypeOfValue(value);
    if (type == ParameterType::kInteger && common == ParameterType::kNumber) type = *common;
    if (type == ParameterType::kNumber && common == ParameterType::kInteger) common = type;
    if (common && *common != type) return ParameterType::kUnknown;
    common = type;
  }
  return common.value_or(ParameterType::kUnknown);
}

ParameterType Resolve(const OrderedJson& root, const OrderedJson* schema) {
  for (int step = 0; schema != nullptr && step < kMostSteps; ++step) {
    if (const OrderedJson* reference = Member(*schema, "$ref")) {
      schema = Referenced(root, Text(reference));
    } else if (const OrderedJson* type = Member(*schema, "type")) {
      if (type->is_string()) return TypeNamed(Text(type));
      const OrderedJson* only =
          OnlyOther(*type, [](const OrderedJson& name) { return Text(&name) == "null"; });
      return TypeNamed(Text(only));
    } else if (const OrderedJson* alternatives = Member(*schema, "anyOf")) {
      schema = OnlyOther(*alternatives, [](const OrderedJson& alternative) {
        return Text(Member(alternative, "type")) == "null";
      });
    } else if (const OrderedJson* only = Member(*schema, "const")) {
      return TypeOfValue(*only);
    } else if (const OrderedJson* values = Member(*schema, "enum"); values && values->is_array()) {
      return CommonType(*values);
    } else {
      break;
    }
  }
  return ParameterType::kUnknown;
}

template <typename T>
std::optional<T> ParseWhole(std::string_view text) {
  T value{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseFinite(std::string_view text) {
  const auto value = ParseWhole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<OrderedJson> ParseInteger(std::string_view text) {
  if (const auto integer = ParseWhole<int64_t>(text)) return OrderedJson(*integer);
  return std::nullopt;
}

std::optional<OrderedJson> ParseNumber(std::string_view text) {
  if (auto integer = ParseInteger(text)) return integer;
  const auto number = ParseFinite(text);
  if (!number) return std::nullopt;
  // 2^63: whole numbers below it are integers, "3.0" for instance.
  if (*number == std::trunc(*number) && std::abs(*number) < 0x1p63) {
    return OrderedJson(static_cast<int64_t>(*number));
  }
  return OrderedJson(*number);
}

std::optional<OrderedJson> ParseBoolean(std::string_view text) {
  if (text == "true") return OrderedJson(true);
  if (text == "false") return OrderedJson(false);
  return std::nullopt;
}

std::optional<OrderedJson> ParseJson(std::string_view text) {
  OrderedJson value = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() || DeeperThan(value, kDeepestJson)) return std::nullopt;
  return value;
}

std::optional<OrderedJson> Guess(std::string_view text) {
  if (text.starts_with('{') || text.starts_with('[')) return ParseJson(text);
  if (auto boolean = ParseBoolean(text)) return boolean;
  return ParseInteger(text);
}

}  // namespace

ToolSchemas ToolSchemas::FromTools(const OrderedJson& tools) {
  ToolSchemas schemas;
  if (!tools.is_array()) return schemas;
  for (const OrderedJson& tool : tools) {
    const OrderedJson* wrapped = Member(tool, "function");
    const OrderedJson& function = wrapped != nullptr ? *wrapped : tool;
    const std::string_view name = Text(Member(function, "name"));
    if (name.empty()) continue;
    Types& types = schemas.functions_[std::string(name)];
    const OrderedJson* parameters = Member(function, "parameters");
    const OrderedJson* properties =
        parameters != nullptr ? Member(*parameters, "properties") : nullptr;
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, schema] : properties->items()) {
      types[key] = Resolve(*parameters, &schema);
    }
  }
  return schemas;
}

bool ToolSchemas::Declares(std::string_view function) const {
  return functions_.contains(std::string(function));
}

ParameterType ToolSchemas::TypeOf(std::string_view function, std::string_view parameter) const {
  const auto types = functions_.find(std::string(function));
  if (types == functions_.end()) return ParameterType::kUnknown;
  const auto type = types->second.find(std::string(parameter));
  return type == types->second.end() ? ParameterType::kUnknown : type->second;
}

OrderedJson CoerceParameter(std::string_view text, ParameterType type) {
  std::optional<OrderedJson> value;
  switch (type) {
    case ParameterType::kString:
      break;
    case ParameterType::kInteger:
    case ParameterType::kNumber:
      value = ParseNumber(text);
      break;
    case ParameterType::kBoolean:
      value = ParseBoolean(text);
      break;
    case ParameterType::kArray:
    case ParameterType::kObject:
      value = ParseJson(text);
      break;
    case ParameterType::kUnknown:
      value = Guess(text);
      break;
  }
  return value ? *std::move(value) : OrderedJson(std::string(text));
}

}  // namespace slotstream::text
