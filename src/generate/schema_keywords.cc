#include "generate/schema_keywords.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace slotstream::generate {
namespace {

constexpr std::array<std::string_view, 26> kKept = {"type",
                                                    "enum",
                                                    "const",
                                                    "properties",
                                                    "required",
                                                    "additionalProperties",
                                                    "minProperties",
                                                    "maxProperties",
                                                    "propertyNames",
                                                    "items",
                                                    "prefixItems",
                                                    "additionalItems",
                                                    "minItems",
                                                    "maxItems",
                                                    "minLength",
                                                    "maxLength",
                                                    "minimum",
                                                    "maximum",
                                                    "anyOf",
                                                    "oneOf",
                                                    "allOf",
                                                    "$ref",
                                                    "exclusiveMinimum",
                                                    "exclusiveMaximum",
                                                    "pattern",
                                                    "format"};
constexpr std::array<std::string_view, 17> kRefused = {"multipleOf",
                                                       "uniqueItems",
                                                       "contains",
                                                       "minContains",
                                                       "maxContains",
                                                       "patternProperties",
                                                       "dependentRequired",
                                                       "dependentSchemas",
                                                       "dependencies",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "not",
                                                       "$dynamicRef",
                                                       "$recursiveRef",
                                                       "unevaluatedItems",
                                                       "unevaluatedProperties"};

}  // namespace

KeywordKind KindOfKeyword(std::string_view keyword) {
  if (std::ranges::find(kKept, keyword) != kKept.end()) return KeywordKind::kKept;
  if (std::ranges::find(kRefused, keyword) != kRefused.end()) return KeywordKind::kRefused;
  return KeywordKind::kAnnotation;
}

const Json* MemberOf(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool Narrows(const Json& schema, std::initializer_list<std::string_view> apart) {
  if (!schema.is_object()) return schema == false;
  for (const auto& [key, value] : schema.items()) {
    if (KindOfKeyword(key) != KeywordKind::kAnnotation &&
        std::ranges::find(apart, key) == apart.end()) {
      return true;
    }
  }
  return false;
}

TypeSet TypeNamed(std::string_view name) {
  if (name == "null") return kNullType;
  if (name == "boolean") return kBooleanType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kIntegerType | kNumberType;
  if (name == "string") return kStringType;
  if (name == "array") return kArrayType;
  if (name == "object") return kObjectType;
  return 0;
}

TypeBit TypeOfValue(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  const bool whole =
      !value.is_number_float() || value.get<double>() == std::trunc(value.get<double>());
  return whole ? kIntegerType : kNumberType;
}

std::string PointerPart(std::string_view text) {
  std::string part = "/";
  for (char c : text) {
    if (c == '~') {
      part += "~0";
    } else if (c == '/') {
      part += "~1";
    } else {
      part += c;
    }
  }
  return part;
}

}  // namespace slotstream::generate
