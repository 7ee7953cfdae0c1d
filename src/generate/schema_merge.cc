// The part of SchemaCompiler that follows references and makes one schema of several.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "generate/json_schema.h"
#include "generate/schema_keywords.h"

namespace slotstream::generate {
namespace {

// References and allOf followed while merging; ends cycles.
constexpr int kMostSteps = 16;

// Values copied while joining: 20 MB or so.
constexpr size_t kMostMerged = 200'000;

// What a copy costs, in values.
size_t ValuesIn(const Json& value) {
  if (value.is_string()) return 1 + value.get_ref<const std::string&>().size() / 64;
  size_t values = 1;
  if (value.is_structured()) {
    for (const Json& part : value) values += ValuesIn(part);
  }
  return values;
}

// The tighter of two bounds, or null if `keyword` is none.
const Json* Tighter(std::string_view keyword, const Json& first, const Json& second) {
  if (!first.is_number() || !second.is_number()) return nullptr;
  if (keyword == "minimum" || keyword == "exclusiveMinimum" || keyword.starts_with("min")) {
    return first < second ? &second : &first;
  }
  if (keyword == "maximum" || keyword == "exclusiveMaximum" || keyword.starts_with("max")) {
    return first < second ? &first : &second;
  }
  return nullptr;
}

Json AsList(const Json& value) { return value.is_array() ? value : Json::array({value}); }

// The types that both name.
Json CommonTypes(const Json& first, const Json& second) {
  Json common = Json::array();
  for (const Json& name : AsList(first)) {
    for (const Json& other : AsList(second)) {
      if (name == other) common.push_back(name);
      if (name == "number" && other == "integer") common.push_back(other);
      if (name == "integer" && other == "number") common.push_back(name);
    }
  }
  return common;
}

// Members that one side has and the other, which allows no others, does not.
bool ClosesOut(const Json& closed, const Json& other) {
  const Json* additional = MemberOf(closed, "additionalProperties");
  if (additional == nullptr || *additional == true) return false;
  const Json* allowed = MemberOf(closed, "properties");
  const Json* members = MemberOf(other, "properties");
  if (members == nullptr || !members->is_object()) return false;
  for (const auto& [key, value] : members->items()) {
    if (allowed == nullptr || !allowed->contains(key)) return true;
  }
  return false;
}

}  // namespace

Result<const Json*> SchemaCompiler::Target(const Json& reference, const std::string& pointer) {
  const std::string at = pointer + "/$ref";
  if (!reference.is_string()) return Refuse(ErrorCode::kInvalidArgument, at, "not a text");
  const auto& name = reference.get_ref<const std::string&>();
  if (name != "#" && !name.starts_with("#/")) {
    return Refuse(
        ErrorCode::kUnsupported, at,
        fmt::format("only references within the schema (#/...) are supported, not {:?}", name));
  }
  try {
    const Json::json_pointer place{name.substr(1)};
    if (root_.contains(place)) return &root_.at(place);
  } catch (const std::exception&) {  // no pointer; said below
  }
  return Refuse(ErrorCode::kInvalidArgument, at, fmt::format("{:?} is not in the schema", name));
}

// All that both say. `pointer` is the place of `second`.
Result<Json> SchemaCompiler::Merge(const Json& first, const Json& second,
                                   const std::string& pointer, int depth) {
  if (depth > kMostSteps) {
    return Refuse(ErrorCode::kUnsupported, pointer, "schemas that are joined refer to each other");
  }
  if (first.is_boolean()) return first.get<bool>() ? second : first;
  if (second.is_boolean()) return second.get<bool>() ? first : second;
  if (!second.is_object()) {
    return Refuse(ErrorCode::kInvalidArgument, pointer, "neither an object nor true or false");
  }
  merged_values_ += ValuesIn(first) + ValuesIn(second);
  if (merged_values_ > kMostMerged) {
    return Refuse(ErrorCode::kResourceLimit, pointer,
                  fmt::format("joining schemas makes more than {} values", kMostMerged));
  }
  if (const Json* reference = MemberOf(second, "$ref")) {
    SS_ASSIGN_OR_RETURN(const Json* target, Target(*reference, pointer));
    Json rest = second;
    rest.erase("$ref");
    SS_ASSIGN_OR_RETURN(const Json joined, Merge(first, *target, pointer, depth + 1));
    return Merge(joined, rest, pointer, depth + 1);
  }
  if (!lenient_ && (ClosesOut(first, second) || ClosesOut(second, first))) {
    return Refuse(ErrorCode::kUnsupported, pointer,
                  "additionalProperties in one of several joined schemas is not supported");
  }
  Json merged = first;
  for (const auto& [key, value] : second.items()) {
    const auto present = merged.find(key);
    if (present == merged.end() || *present == value ||
        KindOfKeyword(key) == KeywordKind::kAnnotation) {
      merged[key] = value;
    } else if (const Json* tighter = Tighter(key, *present, value)) {
      merged[key] = Json(*tighter);
    } else if (key == "type") {
      *present = CommonTypes(*present, value);
    } else if (key == "required" && present->is_array() && value.is_array()) {
      present->insert(present->end(), value.begin(), value.end());
    } else if (key == "allOf" && present->is_array() && value.is_array()) {
      present->insert(present->end(), value.begin(), value.end());
    } else if (key == "properties" && present->is_object() && value.is_object()) {
      for (const auto& [name, property] : value.items()) {
        const auto other = present->find(name);
        if (other == present->end()) {
          (*present)[name] = property;
          continue;
        }
        // A reference on the first side would hide what is merged into it.
        Json both = {{"allOf", Json::array({*other, property})}};
        *other = std::move(both);
      }
    } else if (key == "enum" && present->is_array() && value.is_array()) {
      merged_values_ += present->size() * value.size() / 64;  // comparisons, cheaper than copies
      if (merged_values_ > kMostMerged) {
        return Refuse(ErrorCode::kResourceLimit, pointer + "/enum", "too many values to join");
      }
      Json common = Json::array();
      for (const Json& one : *present) {
        if (std::find(value.begin(), value.end(), one) != value.end()) common.push_back(one);
      }
      *present = std::move(common);
    } else if (!lenient_) {
      return Refuse(ErrorCode::kUnsupported, pointer + PointerPart(key),
                    "it can't be joined with the same keyword beside it");
    }
  }
  return merged;
}

// A schema with a reference or allOf beside other keywords.
Result<Json> SchemaCompiler::MergeAll(const Json& schema, const std::string& pointer) {
  Json merged = schema;
  for (int step = 0; step < kMostSteps; ++step) {
    const bool reference = merged.contains("$ref");
    if (!reference && !merged.contains("allOf")) return merged;
    const std::string place = pointer + (reference ? "/$ref" : "/allOf");
    Json parts = Json::array();
    if (reference) {
      parts.push_back({{"$ref", merged["$ref"]}});
      merged.erase("$ref");
    } else {
      parts = merged["allOf"];
      merged.erase("allOf");
    }
    if (!parts.is_array()) return Refuse(ErrorCode::kInvalidArgument, place, "not a list");
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string at = reference ? pointer : fmt::format("{}/{}", place, i);
      if (parts[i].is_object()) SS_RETURN_IF_ERROR(CheckKeywords(parts[i], at));
      SS_ASSIGN_OR_RETURN(Json joined, Merge(merged, parts[i], at, step));
      merged = std::move(joined);
      if (!merged.is_object()) return merged;
    }
  }
  return Refuse(ErrorCode::kUnsupported, pointer, "allOf refers to itself");
}

Result<const Json*> SchemaCompiler::ResolveObject(const Json& schema) {
  const Json* resolved = &schema;
  if (!schema.is_object()) return resolved;
  if (!schema.contains("$ref") && !schema.contains("allOf")) return resolved;
  SS_ASSIGN_OR_RETURN(Json merged, MergeAll(schema, ""));
  return &merged_.emplace_back(std::move(merged));
}

}  // namespace slotstream::generate
