#include "generate/reply_shape.h"

#include <fmt/format.h>

#include <utility>

#include "generate/call_grammar.h"
#include "generate/constraint.h"
#include "generate/json_schema.h"

namespace slotstream::generate {
namespace {

Result<NodeId> Document(const ReplyShape& shape, Grammar& grammar) {
  static const Json any_object = {{"type", "object"}};
  const bool any = shape.document == ReplyShape::Document::kAnyObject;
  const Json& schema = any ? any_object : shape.schema;
  SchemaCompiler compiler(schema, grammar, /*lenient=*/false, shape.schema_place);
  return compiler.Compile(schema, "", kEveryType, ValueForm::kJson);
}

}  // namespace

Result<std::shared_ptr<const Constraint>> MakeConstraint(const ReplyShape& shape) {
  auto constraint = std::make_shared<Constraint>();
  Grammar& grammar = constraint->grammar;
  NodeId root = kNoNode;
  if (shape.document != ReplyShape::Document::kNone) {
    SS_ASSIGN_OR_RETURN(root, Document(shape, grammar));
  }
  if (shape.calls != ReplyShape::Calls::kFree) {
    SS_ASSIGN_OR_RETURN(const CallNodes calls,
                        AddCalls(shape.tools, shape.strict, shape.tool, grammar));
    if (root != kNoNode && shape.calls == ReplyShape::Calls::kStrict) {
      root = grammar.Add(ChoiceNode{{root, calls.calls}});
    } else if (shape.calls == ReplyShape::Calls::kForced) {
      root = calls.calls;
    } else {
      root = calls.after_open;
      constraint->trigger = "<tool_call>";
    }
  }
  const auto breaks = grammar.Add(WordsNode{{"\n", "\n\n"}, {}});
  const auto lead = grammar.Add(ChoiceNode{{grammar.Add(SequenceNode{}), breaks}});
  constraint->after_reasoning = grammar.Add(SequenceNode{{lead, root}});
  if (const Status sound = grammar.Finish(root); !sound) {
    return Fail(sound.error().code,
                fmt::format("{}#: {}", shape.schema_place, sound.error().message));
  }
  return constraint;
}

}  // namespace slotstream::generate
