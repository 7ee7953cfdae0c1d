#include "generate/call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "generate/json_schema.h"
#include "generate/schema_keywords.h"
#include "text/tool_schema.h"

namespace slotstream::generate {
namespace {

using text::ParameterType;

// As the parser of calls reads them.
constexpr size_t kLongestName = 256;
bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         name.find_first_of("<>\n") == std::string_view::npos;
}

TypeSet TypesOf(ParameterType type) {
  switch (type) {
    case ParameterType::kInteger:
      return kIntegerType;
    case ParameterType::kNumber:
      return kIntegerType | kNumberType;
    case ParameterType::kBoolean:
      return kBooleanType;
    case ParameterType::kArray:
      return kArrayType;
    case ParameterType::kObject:
      return kObjectType;
    case ParameterType::kString:
      return kStringType;
    case ParameterType::kUnknown:
      break;
  }
  // What the parser recognises without a declared type.
  return kIntegerType | kBooleanType | kArrayType | kObjectType;
}

// A parameter's value behind <parameter=KEY>, its frame's end included.
Result<NodeId> Value(SchemaCompiler& compiler, Grammar& grammar, const Json& schema,
                     const std::string& pointer, ParameterType type) {
  std::vector<NodeId> ways;
  if (type == ParameterType::kString || type == ParameterType::kUnknown) {
    const auto form = type == ParameterType::kString ? ValueForm::kRaw : ValueForm::kGuessed;
    SS_ASSIGN_OR_RETURN(const NodeId text, compiler.Compile(schema, pointer, kStringType, form));
    ways.push_back(text);
  }
  if (type != ParameterType::kString) {
    SS_ASSIGN_OR_RETURN(const NodeId value,
                        compiler.Compile(schema, pointer, TypesOf(type), ValueForm::kJsonInCall));
    ways.push_back(compiler.Sequence({value, compiler.Word("\n</parameter>")}));
  }
  return compiler.Sequence(
      {compiler.Word("\n"), grammar.Add(ChoiceNode{std::move(ways)}), compiler.Word("\n")});
}

Result<NodeId> Parameters(const Json& schema, bool strict, const std::string& name,
                          const text::ToolSchemas& types, Grammar& grammar) {
  const std::string where = fmt::format("tool {:?} parameters", name);
  SchemaCompiler compiler(schema, grammar, !strict, where);
  SS_ASSIGN_OR_RETURN(const Json* object, compiler.ResolveObject(schema));
  SS_ASSIGN_OR_RETURN(SchemaCompiler::Members members, compiler.ReadMembers(*object, ""));
  ObjectNode node;
  node.parameters = true;
  for (size_t i = 0; i < members.keys.size(); ++i) {
    const std::string& key = members.keys[i];
    const std::string pointer = "/properties" + PointerPart(key);
    if (!IsName(key)) {
      if (!members.required[i]) continue;
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("{}#{}: no call can have this name", where, pointer));
    }
    SS_ASSIGN_OR_RETURN(const NodeId value, Value(compiler, grammar, *members.values[i], pointer,
                                                  types.TypeOf(name, key)));
    node.keys.push_back(key);
    node.values.push_back(value);
    node.required.push_back(members.required[i]);
  }
  return grammar.Add(std::move(node));
}

// A tool's parameters, checked on their own so that one tool doesn't spoil the others.
Result<NodeId> Tool(const Json& function, bool strict, const std::string& name,
                    const text::ToolSchemas& types, Grammar& grammar) {
  static const Json nothing = Json::object();
  const Json* parameters = MemberOf(function, "parameters");
  const Json& schema = parameters != nullptr && parameters->is_object() ? *parameters : nothing;
  Grammar alone;
  SS_ASSIGN_OR_RETURN(const NodeId root, Parameters(schema, strict, name, types, alone));
  if (const Status sound = alone.Finish(root); !sound) {
    return Fail(sound.error().code,
                fmt::format("tool {:?} parameters: {}", name, sound.error().message));
  }
  return Parameters(schema, strict, name, types, grammar);
}

}  // namespace

Result<CallNodes> AddCalls(const text::OrderedJson& tools, const std::set<std::string>& strict,
                           const std::string& only, Grammar& grammar) {
  const text::ToolSchemas types = text::ToolSchemas::FromTools(tools);
  std::map<std::string, NodeId> heads;  // by the name and what follows it
  std::string reason;
  for (const Json& tool : tools) {
    const Json* wrapped = MemberOf(tool, "function");
    const Json& function = wrapped != nullptr ? *wrapped : tool;
    const Json* given = MemberOf(function, "name");
    if (given == nullptr || !given->is_string()) continue;
    const auto name = given->get<std::string>();
    if (!only.empty() && name != only) continue;
    if (!IsName(name)) {
      reason = fmt::format("no call can have the name {:?}", name);
      continue;
    }
    auto parameters = Tool(function, strict.contains(name), name, types, grammar);
    if (!parameters) {
      if (strict.contains(name)) return std::unexpected(std::move(parameters).error());
      reason = parameters.error().message;
      continue;
    }
    heads[name + ">\n"] = *parameters;
  }
  if (heads.empty()) {
    return Fail(ErrorCode::kUnsupported,
                reason.empty() ? "there is no tool to call" : "no tool can be called: " + reason);
  }
  const auto word = [&](std::string text) { return grammar.Add(WordsNode{{std::move(text)}, {}}); };
  const NodeId end =
      grammar.Add(SequenceNode{{word("</function>\n"), grammar.Add(TagNode{"</tool_call>"})}});
  WordsNode names;
  for (const auto& [head, parameters] : heads) {
    names.words.push_back(head);
    names.next.push_back(grammar.Add(SequenceNode{{parameters, end}}));
  }
  CallNodes nodes;
  nodes.after_open =
      grammar.Add(SequenceNode{{word("\n<function="), grammar.Add(std::move(names))}});
  const NodeId more = grammar.Add(ChoiceNode{});
  nodes.calls =
      grammar.Add(SequenceNode{{grammar.Add(TagNode{"<tool_call>"}), nodes.after_open, more}});
  grammar.Set(more, ChoiceNode{{grammar.Add(SequenceNode{}),
                                grammar.Add(SequenceNode{{word("\n"), nodes.calls}})}});
  return nodes;
}

}  // namespace slotstream::generate
