#include "text/tool_call_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/partial_match.h"

namespace slotstream::text {
namespace {

constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionClose = "</function>";
constexpr std::string_view kParameterOpen = "<parameter=";
constexpr std::string_view kParameterClose = "</parameter>";
// The last line break of a value belongs to its frame.
constexpr std::string_view kValueEnd = "\n</parameter>";

using Kind = ToolCallEvent::Kind;

// Bounds the search for the end of a name; OpenAI's limit for function names is 64.
constexpr size_t kLongestName = 256;

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         name.find_first_of("<\n") == std::string_view::npos;
}

// The longest end of `text` that may become one of the tags.
template <size_t N>
size_t Held(std::string_view text, const std::array<std::string_view, N>& tags) {
  size_t held = 0;
  for (std::string_view tag : tags) held = std::max(held, PartialMatch(text, tag));
  return held;
}

}  // namespace

std::string FormatCallId(uint32_t number) { return fmt::format("call_{:08x}", number); }

std::vector<ToolCallEvent> ToolCallParser::Push(std::string_view text) {
  pending_.append(text);
  while (Step()) {
  }
  return std::exchange(events_, {});
}

std::vector<ToolCallEvent> ToolCallParser::Flush() {
  if (state_ == State::kText) {
    Emit(Kind::kText, std::exchange(pending_, {}));
  } else {
    Consume(pending_.size());
    Emit(Kind::kMalformed, std::exchange(block_, {}));
    state_ = State::kText;
  }
  return std::exchange(events_, {});
}

bool ToolCallParser::Step() {
  switch (state_) {
    case State::kText:
      return StepText();
    case State::kCall:
      return StepCall();
    case State::kName:
      return StepName();
    case State::kParams:
      return StepParams();
    case State::kParamName:
      return StepParamName();
    case State::kValue:
      return StepValue();
    case State::kClosing:
    case State::kBroken:
      return StepClosing();
  }
  return false;
}

bool ToolCallParser::StepText() {
  const size_t tag = pending_.find(kCallOpen);
  if (tag == std::string::npos) {
    const size_t free = pending_.size() - PartialMatch(pending_, kCallOpen);
    Emit(Kind::kText, pending_.substr(0, free));
    pending_.erase(0, free);
    return false;
  }
  Emit(Kind::kText, pending_.substr(0, tag));
  pending_.erase(0, tag);
  block_.clear();
  Consume(kCallOpen.size());
  state_ = State::kCall;
  return true;
}

bool ToolCallParser::StepCall() {
  const size_t function = pending_.find(kFunctionOpen);
  const size_t close = pending_.find(kCallClose);
  if (function == std::string::npos && close == std::string::npos) {
    Consume(pending_.size() - Held(pending_, std::array{kFunctionOpen, kCallClose}));
    return false;
  }
  if (close < function) {  // an empty call means nothing
    Consume(close + kCallClose.size());
    state_ = State::kText;
  } else {
    Consume(function + kFunctionOpen.size());
    state_ = State::kName;
  }
  return true;
}

bool ToolCallParser::StepName() {
  const size_t end = pending_.find('>');
  const std::string_view name = std::string_view(pending_).substr(0, end);
  if (end == std::string::npos) {
    if (name.empty() || IsName(name)) return false;
    state_ = State::kBroken;
    return true;
  }
  if (!IsName(name)) {
    state_ = State::kBroken;
    return true;
  }
  function_ = name;
  parameters_.clear();
  events_.push_back(
      {Kind::kBegin, "", FormatCallId(next_id_++), function_, schemas_.Declares(function_)});
  Consume(end + 1);
  state_ = State::kParams;
  return true;
}

bool ToolCallParser::StepParams() {
  const size_t parameter = pending_.find(kParameterOpen);
  const size_t function_end = pending_.find(kFunctionClose);
  const size_t call_end = pending_.find(kCallClose);
  const size_t first = std::min({parameter, function_end, call_end});
  if (first == std::string::npos) {
    Consume(pending_.size() -
            Held(pending_, std::array{kParameterOpen, kFunctionClose, kCallClose}));
    return false;
  }
  if (first == parameter) {
    Consume(parameter + kParameterOpen.size());
    state_ = State::kParamName;
  } else if (first == function_end) {
    Consume(function_end + kFunctionClose.size());
    state_ = State::kClosing;
  } else {
    Consume(call_end + kCallClose.size());
    EndCall();
  }
  return true;
}

bool ToolCallParser::StepParamName() {
  const size_t end = pending_.find('>');
  const std::string_view name = std::string_view(pending_).substr(0, end);
  if (end == std::string::npos) {
    if (name.empty() || IsName(name)) return false;
    state_ = State::kBroken;
    return true;
  }
  if (!IsName(name) || parameters_.contains(name)) {
    state_ = State::kBroken;
    return true;
  }
  BeginParameter(name);
  Consume(end + 1);
  state_ = State::kValue;
  return true;
}

void ToolCallParser::BeginParameter(std::string_view name) {
  std::string fragment = parameters_.empty() ? "{\"" : ",\"";
  AppendEscaped(name, fragment);
  fragment += "\":";
  type_ = schemas_.TypeOf(function_, name);
  if (type_ == ParameterType::kString) fragment += '"';
  Emit(Kind::kArguments, std::move(fragment));
  parameters_.emplace(name);
  value_begun_ = false;
  value_.clear();
}

bool ToolCallParser::StepValue() {
  if (!value_begun_) {
    if (pending_.empty()) return false;
    // "\n</parameter>" is the frame of an empty value on one line: its only break leads.
    if (pending_[0] == '\n') Consume(1);
    value_begun_ = true;
  }
  const size_t close = pending_.find(kParameterClose);
  size_t end = close;
  if (close == std::string::npos) {
    end = pending_.size() - Held(pending_, std::array{kValueEnd, kParameterClose});
  } else if (close > 0 && pending_[close - 1] == '\n') {
    end = close - 1;
  }
  const std::string_view part = std::string_view(pending_).substr(0, end);
  if (type_ != ParameterType::kString) {
    value_.append(part);
  } else if (!part.empty()) {
    std::string escaped;
    AppendEscaped(part, escaped);
    Emit(Kind::kArguments, std::move(escaped));
  }
  if (close == std::string::npos) {
    Consume(end);
    return false;
  }
  if (type_ == ParameterType::kString) {
    Emit(Kind::kArguments, "\"");
  } else {
    // Coerced values are never nested too deep to be written.
    Emit(Kind::kArguments,
         WriteJson(CoerceParameter(value_, type_), JsonStyle::kCompact).value_or("null"));
  }
  Consume(close + kParameterClose.size());
  state_ = State::kParams;
  return true;
}

bool ToolCallParser::StepClosing() {
  const size_t close = pending_.find(kCallClose);
  if (close == std::string::npos) {
    Consume(pending_.size() - PartialMatch(pending_, kCallClose));
    return false;
  }
  Consume(close + kCallClose.size());
  if (state_ == State::kClosing) {
    EndCall();
  } else {
    Emit(Kind::kMalformed, std::exchange(block_, {}));
    state_ = State::kText;
  }
  return true;
}

void ToolCallParser::EndCall() {
  Emit(Kind::kArguments, parameters_.empty() ? "{}" : "}");
  events_.push_back({Kind::kEnd, "", "", "", false});
  block_.clear();
  state_ = State::kText;
}

void ToolCallParser::Consume(size_t count) {
  block_.append(pending_, 0, count);
  pending_.erase(0, count);
}

void ToolCallParser::Emit(ToolCallEvent::Kind kind, std::string text) {
  if (text.empty()) return;
  events_.push_back({kind, std::move(text), "", "", false});
}

ParsedReply ParseToolCalls(std::string_view text, const ToolSchemas& schemas, uint32_t first_id) {
  ToolCallParser parser(schemas, first_id);
  std::vector<ToolCallEvent> events = parser.Push(text);
  for (ToolCallEvent& event : parser.Flush()) events.push_back(std::move(event));

  ParsedReply reply;
  bool open = false;  // the last call has begun and not ended
  for (ToolCallEvent& event : events) {
    switch (event.kind) {
      case Kind::kText:
        reply.text += event.text;
        break;
      case Kind::kBegin:
        reply.calls.push_back({std::move(event.id), std::move(event.name), "", event.declared});
        open = true;
        break;
      case Kind::kArguments:
        reply.calls.back().arguments += event.text;
        break;
      case Kind::kEnd:
        open = false;
        break;
      case Kind::kMalformed:
        reply.text += event.text;
        reply.malformed = true;
        if (std::exchange(open, false)) reply.calls.pop_back();
        break;
    }
  }
  return reply;
}

}  // namespace slotstream::text
