// Tool calls as the model writes them (text/tool_call_parser.h), with arguments that their schemas
// allow.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "generate/grammar.h"
#include "text/json_text.h"

namespace slotstream::generate {

struct CallNodes {
  NodeId calls = kNoNode;       // one call, or several on lines of their own
  NodeId after_open = kNoNode;  // one call behind its <tool_call>
};

// `only`: the one tool that may be called; empty: any of `tools`. Of a tool that is not in `strict`
// what can't be kept of its schema is left out, and the tool as a whole if nothing satisfies it.
// Errors: see SchemaCompiler; kUnsupported where no tool is left.
Result<CallNodes> AddCalls(const text::OrderedJson& tools, const std::set<std::string>& strict,
                           const std::string& only, Grammar& grammar);

}  // namespace slotstream::generate
