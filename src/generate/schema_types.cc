// The part of SchemaCompiler that is about one type each.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "generate/json_schema.h"
#include "generate/pattern_text.h"
#include "generate/schema_keywords.h"

namespace slotstream::generate {
namespace {

TextForm TextFormOf(ValueForm form) {
  switch (form) {
    case ValueForm::kJsonInCall:
      return TextForm::kJsonInCall;
    case ValueForm::kRaw:
      return TextForm::kRaw;
    case ValueForm::kGuessed:
      return TextForm::kGuessed;
    case ValueForm::kJson:
      break;
  }
  return TextForm::kJson;
}

}  // namespace

Result<NodeId> SchemaCompiler::OfType(TypeBit type, const Json& schema, const std::string& pointer,
                                      ValueForm form) {
  const bool raw = form == ValueForm::kRaw || form == ValueForm::kGuessed;
  if (raw && type != kStringType) return grammar_.Add(ChoiceNode{});
  switch (type) {
    case kNullType:
      return Word("null");
    case kBooleanType:
      return grammar_.Add(WordsNode{{"false", "true"}, {}});
    case kIntegerType:
      return Number(true, schema, pointer);
    case kNumberType:
      return Number(false, schema, pointer);
    case kStringType:
      return String(schema, pointer, form);
    case kArrayType:
      return Array(schema, pointer, form);
    case kObjectType:
      return Object(schema, pointer, form);
    case kEveryType:
      break;
  }
  return grammar_.Add(ChoiceNode{});
}

// A count; zod writes 2^53 - 1 where it means none, so large ones are ordinary.
Result<uint64_t> SchemaCompiler::Count(const Json& schema, const char* keyword,
                                       const std::string& pointer, uint64_t otherwise) {
  const Json* value = MemberOf(schema, keyword);
  if (value == nullptr) return otherwise;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  if (value->is_number_integer() && value->get<int64_t>() >= 0) return value->get<uint64_t>();
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (number >= 0 && TypeOfValue(*value) == kIntegerType) {
      return number < 0x1p63 ? static_cast<uint64_t>(number) : uint64_t{1} << 63;
    }
  }
  return Refuse(ErrorCode::kInvalidArgument, pointer + "/" + keyword, "not a count");
}

// Puts the pattern of `pattern` or `format` into the text; false where there is none.
Result<bool> SchemaCompiler::ReadPattern(const Json& schema, const std::string& pointer,
                                         TextNode& text) {
  const Json* pattern = MemberOf(schema, "pattern");
  const Json* format = MemberOf(schema, "format");
  if (pattern == nullptr && format == nullptr) return false;
  const std::string at = pointer + (pattern != nullptr ? "/pattern" : "/format");
  const Json& given = pattern != nullptr ? *pattern : *format;
  if (!given.is_string()) return Refuse(ErrorCode::kInvalidArgument, at, "not a text");
  const auto& name = given.get_ref<const std::string&>();
  const std::string_view expression = pattern != nullptr ? name : PatternOfFormat(name);
  if (!lenient_ && pattern != nullptr && format != nullptr) {
    return Refuse(ErrorCode::kUnsupported, at, "not supported beside format");
  }
  if (pattern == nullptr && expression.empty()) {
    if (lenient_) return false;
    return Refuse(ErrorCode::kUnsupported, at,
                  fmt::format("the format {:?} is not supported", name));
  }
  if (text.form == TextForm::kGuessed) {
    if (lenient_) return false;
    return Refuse(ErrorCode::kUnsupported, at, "it needs \"type\": \"string\" here");
  }
  const TextForm form = text.form == TextForm::kRaw ? TextForm::kPlain : text.form;
  auto compiled = Pattern::Compile(expression, BarredCharacters(form));
  if (compiled) compiled = compiled->Bounded(text.min, text.max);
  if (!compiled) {
    if (lenient_) return false;
    return Refuse(compiled.error().code, at,
                  fmt::format("the pattern is not supported: {}", compiled.error().message));
  }
  work_ += compiled->size() / 8;  // small beside a node
  text = {form, 0, kUnbounded, std::make_shared<const Pattern>(*std::move(compiled))};
  return true;
}

Result<NodeId> SchemaCompiler::String(const Json& schema, const std::string& pointer,
                                      ValueForm form) {
  TextNode text{.form = TextFormOf(form)};
  SS_ASSIGN_OR_RETURN(text.min, Count(schema, "minLength", pointer, 0));
  SS_ASSIGN_OR_RETURN(text.max, Count(schema, "maxLength", pointer, kUnbounded));
  SS_ASSIGN_OR_RETURN(const bool governed, ReadPattern(schema, pointer, text));
  if (governed) {
    if (form == ValueForm::kRaw) return Sequence({grammar_.Add(text), Word("\n</parameter>")});
    return Sequence({Word("\""), grammar_.Add(text)});
  }
  if (form == ValueForm::kGuessed && (text.min > 0 || text.max != kUnbounded)) {
    // What would be taken for another type has no end, so a longest text might have none at all.
    if (!lenient_) {
      return Refuse(ErrorCode::kUnsupported, pointer, "lengths need \"type\": \"string\" here");
    }
    text = {.form = text.form};
  }
  const NodeId node = grammar_.Add(text);
  if (form == ValueForm::kRaw || form == ValueForm::kGuessed) return node;
  return Sequence({Word("\""), node});
}

Result<NodeId> SchemaCompiler::Number(bool integer, const Json& schema,
                                      const std::string& pointer) {
  const Int128 unit_limit = Int128{1} << 100;  // beyond every number that has kMostDigits
  NumberBounds bounds{-unit_limit, unit_limit};
  bool bounded = false;
  const auto bound = [&](const char* keyword, auto apply) -> Status {
    const Json* value = MemberOf(schema, keyword);
    if (value == nullptr || value->is_boolean()) return {};
    if (!value->is_number()) {
      return Refuse(ErrorCode::kInvalidArgument, pointer + "/" + keyword, "not a number");
    }
    auto scaled = ParseScaled(value->dump());
    if (!scaled) {
      if (lenient_) return {};
      return Refuse(scaled.error().code, pointer + "/" + keyword, scaled.error().message);
    }
    bounded = true;
    apply(*scaled);
    return {};
  };
  // Draft 4 has true beside the bound itself.
  const auto excludes = [&](const char* keyword) {
    const Json* value = MemberOf(schema, keyword);
    return value != nullptr && *value == true ? Int128{1} : Int128{0};
  };
  const Int128 above = excludes("exclusiveMinimum"), below = excludes("exclusiveMaximum");
  SS_RETURN_IF_ERROR(bound("minimum", [&](Int128 v) { bounds.low = v + above; }));
  SS_RETURN_IF_ERROR(bound("maximum", [&](Int128 v) { bounds.high = v - below; }));
  SS_RETURN_IF_ERROR(
      bound("exclusiveMinimum", [&](Int128 v) { bounds.low = std::max(bounds.low, v + 1); }));
  SS_RETURN_IF_ERROR(
      bound("exclusiveMaximum", [&](Int128 v) { bounds.high = std::min(bounds.high, v - 1); }));
  NumberNode node;
  node.rules.integer = integer;
  if (bounded) node.rules.bounds = bounds;
  return grammar_.Add(node);
}

Result<NodeId> SchemaCompiler::Array(const Json& schema, const std::string& pointer,
                                     ValueForm form) {
  ArrayNode array;
  SS_ASSIGN_OR_RETURN(array.min, Count(schema, "minItems", pointer, 0));
  SS_ASSIGN_OR_RETURN(array.max, Count(schema, "maxItems", pointer, kUnbounded));
  const Json* items = MemberOf(schema, "items");
  const Json* prefix = MemberOf(schema, "prefixItems");
  std::string prefix_at = pointer + "/prefixItems", rest_at = pointer + "/items";
  if (items != nullptr && items->is_array()) {  // a tuple of earlier drafts
    prefix = items;
    prefix_at = rest_at;
    items = MemberOf(schema, "additionalItems");
    rest_at = pointer + "/additionalItems";
  }
  if (prefix != nullptr) {
    if (!prefix->is_array()) return Refuse(ErrorCode::kInvalidArgument, prefix_at, "not a list");
    for (size_t i = 0; i < prefix->size(); ++i) {
      SS_ASSIGN_OR_RETURN(
          const NodeId node,
          Compile((*prefix)[i], fmt::format("{}/{}", prefix_at, i), kEveryType, form));
      array.prefix.push_back(node);
    }
  }
  if (items != nullptr) {
    SS_ASSIGN_OR_RETURN(array.rest, Compile(*items, rest_at, kEveryType, form));
  } else if (prefix == nullptr || array.min > array.prefix.size()) {
    array.rest = Any(form);
  }
  return grammar_.Add(std::move(array));
}

Result<SchemaCompiler::Members> SchemaCompiler::ReadMembers(const Json& schema,
                                                            const std::string& pointer) {
  static const Json everything = true;
  const Json* properties = MemberOf(schema, "properties");
  const Json* required = MemberOf(schema, "required");
  const Json* additional = MemberOf(schema, "additionalProperties");
  if (properties != nullptr && !properties->is_object()) {
    return Refuse(ErrorCode::kInvalidArgument, pointer + "/properties", "not an object");
  }
  if (required != nullptr && !required->is_array() && !required->is_boolean()) {
    return Refuse(ErrorCode::kInvalidArgument, pointer + "/required", "not a list of names");
  }
  std::map<std::string, std::pair<const Json*, bool>> members;
  if (properties != nullptr) {
    for (const auto& [key, value] : properties->items()) members[key] = {&value, false};
  }
  if (required != nullptr && required->is_array()) {
    for (const Json& name : *required) {
      if (!name.is_string()) {
        return Refuse(ErrorCode::kInvalidArgument, pointer + "/required", "not a list of names");
      }
      auto& member = members[name.get<std::string>()];
      if (member.first == nullptr) member.first = additional != nullptr ? additional : &everything;
      member.second = true;
    }
  }
  work_ += members.size();
  if (members.size() > kMostWords) {
    return Refuse(ErrorCode::kResourceLimit, pointer, "the schema is too large: too many members");
  }
  Members result;
  for (const auto& [key, member] : members) {
    const bool plain = std::ranges::none_of(
        key, [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
    if (!plain) {
      if (lenient_ && !member.second) continue;
      return Refuse(ErrorCode::kUnsupported, pointer + "/properties" + PointerPart(key),
                    "names with quotes, backslashes or control characters are not supported");
    }
    result.keys.push_back(key);
    result.values.push_back(member.first);
    result.required.push_back(member.second);
  }
  return result;
}

Result<NodeId> SchemaCompiler::Object(const Json& schema, const std::string& pointer,
                                      ValueForm form) {
  SS_ASSIGN_OR_RETURN(Members members, ReadMembers(schema, pointer));
  ObjectNode object;
  SS_ASSIGN_OR_RETURN(object.min, Count(schema, "minProperties", pointer, 0));
  SS_ASSIGN_OR_RETURN(object.max, Count(schema, "maxProperties", pointer, kUnbounded));
  if (object.min > members.keys.size()) {
    // Names that were not declared may come twice, so they can't be counted on.
    if (!lenient_) {
      return Refuse(ErrorCode::kUnsupported, pointer + "/minProperties",
                    "more than the declared properties");
    }
    object.min = members.keys.size();
  }
  for (size_t i = 0; i < members.keys.size(); ++i) {
    const std::string at = pointer + "/properties" + PointerPart(members.keys[i]);
    SS_ASSIGN_OR_RETURN(const NodeId value, Compile(*members.values[i], at, kEveryType, form));
    const bool breaks_call =
        form == ValueForm::kJsonInCall && members.keys[i].find("</parameter>") != std::string::npos;
    object.values.push_back(breaks_call ? grammar_.Add(ChoiceNode{}) : value);
  }
  object.required = std::move(members.required);
  const Json* additional = MemberOf(schema, "additionalProperties");
  const bool open = additional == nullptr ? members.keys.empty() : *additional != false;
  object.keys = std::move(members.keys);
  if (open) {
    if (additional == nullptr) {
      object.additional = Any(form);
    } else {
      SS_ASSIGN_OR_RETURN(object.additional, Compile(*additional, pointer + "/additionalProperties",
                                                     kEveryType, form));
    }
    object.free_key = grammar_.Add(
        TextNode{.form = form == ValueForm::kJsonInCall ? TextForm::kKeyInCall : TextForm::kKey});
  }
  return grammar_.Add(std::move(object));
}

}  // namespace slotstream::generate
