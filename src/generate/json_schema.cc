#include "generate/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "generate/grammar_machine.h"
#include "generate/schema_keywords.h"
#include "text/tool_schema.h"

namespace slotstream::generate {
namespace {

// Schemas within one another, references followed included; our stack is not the sender's choice.
constexpr size_t kDeepestSchema = 256;

constexpr std::string_view kParameterEnd = "\n</parameter>";

constexpr std::initializer_list<TypeBit> kEachType = {
    kNullType, kBooleanType, kIntegerType, kNumberType, kStringType, kArrayType, kObjectType};

bool IsRaw(ValueForm form) { return form == ValueForm::kRaw || form == ValueForm::kGuessed; }

// The types that the keywords of a schema without a type speak of; none: all.
TypeSet ImpliedTypes(const Json& schema) {
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names,
                               [&](const char* name) { return MemberOf(schema, name) != nullptr; });
  };
  TypeSet types = 0;
  if (any({"properties", "required", "additionalProperties", "minProperties", "maxProperties",
           "propertyNames"})) {
    types |= kObjectType;
  }
  if (any({"items", "prefixItems", "minItems", "maxItems"})) types |= kArrayType;
  if (any({"minLength", "maxLength", "pattern", "format"})) types |= kStringType;
  if (any({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) {
    types |= kIntegerType | kNumberType;
  }
  return types == 0 ? TypeSet{kEveryType} : types;
}

}  // namespace

std::unexpected<Error> SchemaCompiler::Refuse(ErrorCode code, const std::string& pointer,
                                              std::string_view what) {
  return Fail(code, fmt::format("{}#{}: {}", where_, pointer, what));
}

NodeId SchemaCompiler::Word(std::string text) {
  return grammar_.Add(WordsNode{{std::move(text)}, {}});
}

Status SchemaCompiler::CheckKeywords(const Json& schema, const std::string& pointer) {
  if (lenient_) return {};
  for (const auto& [key, value] : schema.items()) {
    if (KindOfKeyword(key) != KeywordKind::kRefused || value == false) continue;
    if (key == "multipleOf" && value == 1) continue;
    return Refuse(ErrorCode::kUnsupported, pointer + PointerPart(key),
                  fmt::format("the keyword {:?} is not supported", key));
  }
  const Json* names = MemberOf(schema, "propertyNames");
  if (names != nullptr && *names != Json{{"type", "string"}} && Narrows(*names)) {
    return Refuse(ErrorCode::kUnsupported, pointer + "/propertyNames",
                  "only {\"type\": \"string\"} is supported");
  }
  return {};
}

Result<NodeId> SchemaCompiler::Compile(const Json& schema, const std::string& pointer,
                                       TypeSet types, ValueForm form) {
  if (++work_ > kMostNodes || grammar_.size() > kMostNodes) {
    return Refuse(ErrorCode::kResourceLimit, pointer,
                  fmt::format("the schema is too large: more than {} parts", kMostNodes));
  }
  if (depth_ >= kDeepestSchema) {
    return Refuse(ErrorCode::kResourceLimit, pointer,
                  fmt::format("nested deeper than {} schemas", kDeepestSchema));
  }
  ++depth_;
  Result<NodeId> node = CompileObjectSchema(schema, pointer, types, form);
  --depth_;
  return node;
}

Result<NodeId> SchemaCompiler::CompileObjectSchema(const Json& schema, const std::string& pointer,
                                                   TypeSet types, ValueForm form) {
  if (schema.is_boolean()) {
    static const Json everything = Json::object();
    if (!schema.get<bool>()) return grammar_.Add(ChoiceNode{});
    return CompileObjectSchema(everything, pointer, types, form);
  }
  if (!schema.is_object()) {
    return Refuse(ErrorCode::kInvalidArgument, pointer, "neither an object nor true or false");
  }
  SS_RETURN_IF_ERROR(CheckKeywords(schema, pointer));
  if (const Json* reference = MemberOf(schema, "$ref")) {
    SS_ASSIGN_OR_RETURN(const Json* target, Target(*reference, pointer));
    if (!Narrows(schema, {"$ref"})) {
      return Reference(*target, reference->get<std::string>().substr(1), types, form);
    }
  }
  if (MemberOf(schema, "allOf") != nullptr || MemberOf(schema, "$ref") != nullptr) {
    SS_ASSIGN_OR_RETURN(Json merged, MergeAll(schema, pointer));
    return Compile(merged_.emplace_back(std::move(merged)), pointer, types, form);
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (MemberOf(schema, keyword) != nullptr) {
      return Alternatives(schema, keyword, pointer, types, form);
    }
  }
  SS_ASSIGN_OR_RETURN(const TypeSet own, Types(schema, pointer));
  types &= own;
  if (MemberOf(schema, "enum") != nullptr || MemberOf(schema, "const") != nullptr) {
    return Values(schema, pointer, types, form);
  }
  if (!Narrows(schema) && types == kEveryType && !IsRaw(form)) return Any(form);
  if ((types & kNumberType) != 0) types &= static_cast<TypeSet>(~kIntegerType);
  std::vector<NodeId> ways;
  for (TypeBit type : kEachType) {
    if ((types & type) == 0) continue;
    SS_ASSIGN_OR_RETURN(const NodeId way, OfType(type, schema, pointer, form));
    ways.push_back(way);
  }
  if (ways.size() == 1) return ways[0];
  return grammar_.Add(ChoiceNode{std::move(ways)});
}

Result<NodeId> SchemaCompiler::Reference(const Json& target, const std::string& pointer,
                                         TypeSet types, ValueForm form) {
  const auto key = std::tuple(&target, types, form);
  if (const auto known = references_.find(key); known != references_.end()) return known->second;
  const NodeId placeholder = grammar_.Add(ChoiceNode{});
  references_[key] = placeholder;
  SS_ASSIGN_OR_RETURN(const NodeId node, Compile(target, pointer, types, form));
  grammar_.Set(placeholder, ChoiceNode{{node}});
  return placeholder;
}

Result<NodeId> SchemaCompiler::Alternatives(const Json& schema, const char* keyword,
                                            const std::string& pointer, TypeSet types,
                                            ValueForm form) {
  const Json& list = schema[keyword];
  const std::string at = pointer + "/" + keyword;
  if (!list.is_array() || list.empty()) {
    return Refuse(ErrorCode::kInvalidArgument, at, "not a list of schemas");
  }
  if (list.size() > kMostStacks) {
    return Refuse(ErrorCode::kResourceLimit, at,
                  fmt::format("more than {} alternatives", kMostStacks));
  }
  const bool merge = Narrows(schema, {keyword, "type"});
  Json rest;
  if (merge) {
    rest = schema;
    rest.erase(keyword);
  } else {
    SS_ASSIGN_OR_RETURN(const TypeSet own, Types(schema, pointer));
    types &= own;
  }
  std::vector<NodeId> ways;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}/{}", at, i);
    const Json* way = &list[i];
    if (merge) {
      SS_ASSIGN_OR_RETURN(Json merged, Merge(rest, *way, place, 0));
      way = &merged_.emplace_back(std::move(merged));
    }
    SS_ASSIGN_OR_RETURN(const NodeId node, Compile(*way, place, types, form));
    ways.push_back(node);
  }
  return grammar_.Add(ChoiceNode{std::move(ways)});
}

Result<NodeId> SchemaCompiler::Values(const Json& schema, const std::string& pointer, TypeSet types,
                                      ValueForm form) {
  if (!lenient_ && Narrows(schema, {"enum", "const", "type"})) {
    return Refuse(ErrorCode::kUnsupported, pointer, "beside enum or const only type is supported");
  }
  const Json* list = MemberOf(schema, "enum");
  const Json* only = MemberOf(schema, "const");
  if (list != nullptr && !list->is_array()) {
    return Refuse(ErrorCode::kInvalidArgument, pointer + "/enum", "not a list");
  }
  std::vector<std::string> words;
  const auto add = [&](const Json& value) {
    if ((TypeOfValue(value) & types) == 0) return;
    if (IsRaw(form)) {
      const auto& text = value.get_ref<const std::string&>();
      const bool kept = form == ValueForm::kRaw ||
                        text::CoerceParameter(text, text::ParameterType::kUnknown).is_string();
      if (kept && text.find("</parameter>") == std::string::npos) {
        words.push_back(text + std::string(kParameterEnd));
      }
      return;
    }
    std::string text = value.dump();
    if (form == ValueForm::kJson || text.find("</parameter>") == std::string::npos) {
      words.push_back(std::move(text));
    }
  };
  if (list == nullptr) {
    add(*only);
  } else {
    for (const Json& value : *list) {
      if (only == nullptr || *only == value) add(value);
    }
  }
  constexpr size_t longest = 1 << 20;  // a word's length is counted in 24 bits
  if (words.size() > kMostWords ||
      std::ranges::any_of(words, [](const std::string& word) { return word.size() > longest; })) {
    return Refuse(ErrorCode::kResourceLimit, pointer, "too many or too long values");
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  work_ += words.size();
  return grammar_.Add(WordsNode{std::move(words), {}});
}

Result<TypeSet> SchemaCompiler::Types(const Json& schema, const std::string& pointer) {
  const Json* type = MemberOf(schema, "type");
  if (type == nullptr) return ImpliedTypes(schema);
  TypeSet types = 0;
  const Json names = type->is_array() ? *type : Json::array({*type});
  for (const Json& name : names) {
    const TypeSet named = name.is_string() ? TypeNamed(name.get_ref<const std::string&>()) : 0;
    if (named == 0) {
      return Refuse(ErrorCode::kInvalidArgument, pointer + "/type",
                    fmt::format("{} is no type", name.dump(-1, ' ', true)));
    }
    types |= named;
  }
  return types;
}

NodeId SchemaCompiler::Any(ValueForm form) {
  if (const auto known = any_.find(form); known != any_.end()) return known->second;
  const bool call = form == ValueForm::kJsonInCall;
  const NodeId any = grammar_.Add(ChoiceNode{});
  any_[form] = any;
  const NodeId quote = Word("\"");
  const NodeId text =
      grammar_.Add(TextNode{.form = call ? TextForm::kJsonInCall : TextForm::kJson});
  const NodeId name = grammar_.Add(TextNode{.form = call ? TextForm::kKeyInCall : TextForm::kKey});
  ObjectNode object;
  object.additional = any;
  object.free_key = name;
  grammar_.Set(any, ChoiceNode{{grammar_.Add(WordsNode{{"false", "null", "true"}, {}}),
                                grammar_.Add(NumberNode{}), Sequence({quote, text}),
                                grammar_.Add(ArrayNode{.prefix = {}, .rest = any}),
                                grammar_.Add(std::move(object))}});
  return any;
}

}  // namespace slotstream::generate
