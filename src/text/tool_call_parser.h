// Reads the model's tool calls out of its answer while it is written:
//
//   <tool_call>
//   <function=NAME>
//   <parameter=P>
//   value
//   </parameter>
//   </function>
//   </tool_call>
//
// Everything outside of a block is text. Arguments come out as fragments of one JSON object, in
// the order in which the model writes them; parameters declared as strings stream as they grow,
// others come when they are closed and their type is known. Reasoning must not be fed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_schema.h"

namespace slotstream::text {

// "call_" and 8 hexadecimal digits.
std::string FormatCallId(uint32_t number);

struct ToolCallEvent {
  enum class Kind {
    kText,       // text: plain text
    kBegin,      // id, name, declared: a call begins
    kArguments,  // text: the next fragment of its JSON arguments; joined they are an object
    kEnd,        // the call is complete
    kMalformed,  // text: the whole block as written; where kBegin came before, that call is void
  };
  Kind kind = Kind::kText;
  std::string text;
  std::string id;
  std::string name;
  bool declared = false;  // the request has a function of this name
};

// Belongs to one thread; the schemas must outlive it. The events' meaning doesn't depend on how the
// text is cut into pieces.
class ToolCallParser {
 public:
  // Calls get the ids first_id, first_id + 1 ...; the caller chooses a number that no other reply
  // has.
  ToolCallParser(const ToolSchemas& schemas, uint32_t first_id)
      : schemas_(schemas), next_id_(first_id) {}

  // Holds back only what could still become the tag that is waited for.
  std::vector<ToolCallEvent> Push(std::string_view text);

  // The end of the reply: held text, or kMalformed for a block without an end.
  std::vector<ToolCallEvent> Flush();

 private:
  enum class State {
    kText,       // outside of a block
    kCall,       // before <function=
    kName,       // before its >
    kParams,     // between parameters
    kParamName,  // before its >
    kValue,      // in a parameter's value
    kClosing,    // after </function>
    kBroken,     // in a malformed block, before its </tool_call>
  };

  bool Step();  // false: more text is needed
  bool StepText();
  bool StepCall();
  bool StepName();
  bool StepParams();
  bool StepParamName();
  bool StepValue();
  bool StepClosing();
  void BeginParameter(std::string_view name);
  void EndCall();

  void Consume(size_t count);  // moves text from pending_ to block_
  void Emit(ToolCallEvent::Kind kind, std::string text = {});

  const ToolSchemas& schemas_;
  uint32_t next_id_;
  State state_ = State::kText;
  std::string pending_;  // text not yet understood
  std::string block_;    // the current block so far, as written
  std::string function_;
  std::set<std::string, std::less<>> parameters_;  // seen in this call
  ParameterType type_ = ParameterType::kUnknown;   // of the current parameter
  bool value_begun_ = false;                       // its leading line break is behind us
  std::string value_;                              // of a parameter that doesn't stream
  std::vector<ToolCallEvent> events_;
};

struct ParsedToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object
  bool declared = false;
};

struct ParsedReply {
  std::string text;  // malformed blocks included, as written
  std::vector<ParsedToolCall> calls;
  bool malformed = false;
};

// A whole answer at once.
ParsedReply ParseToolCalls(std::string_view text, const ToolSchemas& schemas, uint32_t first_id);

}  // namespace slotstream::text
