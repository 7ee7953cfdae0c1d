// A JSON Schema becomes nodes of a grammar. docs/STRUCTURED.md says which keywords are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "generate/grammar.h"
#include "text/json_text.h"

namespace slotstream::generate {

using Json = text::OrderedJson;

// A set of JSON's types. Integers are numbers too.
using TypeSet = uint8_t;
enum TypeBit : TypeSet {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kNumberType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kEveryType = 127
};

// How a value is written.
enum class ValueForm : uint8_t {
  kJson,
  kJsonInCall,  // JSON that is a parameter of a tool call
  kRaw,         // a parameter that is a string: its text, and the end of the parameter's frame
  kGuessed,     // likewise, where the parameter has no type
};

// One schema and all that it refers to. Errors of all methods: kInvalidArgument (no schema),
// kUnsupported (a keyword that can't be kept, unless lenient), kResourceLimit; messages begin with
// the JSON pointer of the place.
class SchemaCompiler {
 public:
  // `lenient`: what can't be kept is left out, so that more is allowed than the schema says.
  // `where` stands before pointers in messages. Schema and grammar must outlive this.
  SchemaCompiler(const Json& root, Grammar& grammar, bool lenient, std::string where)
      : root_(root), grammar_(grammar), lenient_(lenient), where_(std::move(where)) {}

  // A value of `schema`, which is a part of the root at `pointer`, of one of `types`.
  Result<NodeId> Compile(const Json& schema, const std::string& pointer, TypeSet types,
                         ValueForm form);
  // An object's members as parameters of a tool call; see ObjectNode.
  struct Members {
    std::vector<std::string> keys;  // sorted
    std::vector<const Json*> values;
    std::vector<bool> required;
  };
  // The schema with references and allOf resolved, as far as it is an object's.
  Result<const Json*> ResolveObject(const Json& schema);
  Result<Members> ReadMembers(const Json& schema, const std::string& pointer);

  NodeId Word(std::string text);  // just this text
  NodeId Sequence(std::vector<NodeId> parts) {
    return grammar_.Add(SequenceNode{std::move(parts)});
  }

 private:
  std::unexpected<Error> Refuse(ErrorCode code, const std::string& pointer, std::string_view what);
  Status CheckKeywords(const Json& schema, const std::string& pointer);
  Result<const Json*> Target(const Json& reference, const std::string& pointer);
  Result<Json> Merge(const Json& first, const Json& second, const std::string& pointer, int depth);
  Result<Json> MergeAll(const Json& schema, const std::string& pointer);

  Result<NodeId> CompileObjectSchema(const Json& schema, const std::string& pointer, TypeSet types,
                                     ValueForm form);
  Result<NodeId> Reference(const Json& target, const std::string& pointer, TypeSet types,
                           ValueForm form);
  Result<NodeId> Alternatives(const Json& schema, const char* keyword, const std::string& pointer,
                              TypeSet types, ValueForm form);
  Result<NodeId> Values(const Json& schema, const std::string& pointer, TypeSet types,
                        ValueForm form);
  Result<TypeSet> Types(const Json& schema, const std::string& pointer);
  Result<NodeId> OfType(TypeBit type, const Json& schema, const std::string& pointer,
                        ValueForm form);
  Result<bool> ReadPattern(const Json& schema, const std::string& pointer, TextNode& text);
  Result<NodeId> String(const Json& schema, const std::string& pointer, ValueForm form);
  Result<NodeId> Number(bool integer, const Json& schema, const std::string& pointer);
  Result<NodeId> Array(const Json& schema, const std::string& pointer, ValueForm form);
  Result<NodeId> Object(const Json& schema, const std::string& pointer, ValueForm form);
  Result<uint64_t> Count(const Json& schema, const char* keyword, const std::string& pointer,
                         uint64_t otherwise);
  NodeId Any(ValueForm form);

  const Json& root_;
  Grammar& grammar_;
  const bool lenient_;
  const std::string where_;
  size_t depth_ = 0, work_ = 0, merged_values_ = 0;
  std::deque<Json> merged_;  // schemas made here; addresses stay
  std::map<std::tuple<const Json*, TypeSet, ValueForm>, NodeId> references_;
  std::map<ValueForm, NodeId> any_;
};

}  // namespace slotstream::generate
