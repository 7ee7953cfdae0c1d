// Replies cut into any pieces, for tests and fuzzers: what the parsers must keep whatever comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_text.h"
#include "text/think_splitter.h"
#include "text/tool_call_parser.h"
#include "text/utf8.h"

namespace slotstream::text {

// What a client sees of a reply: text, and the calls.
struct SeenReply {
  std::string reasoning;
  std::string text;  // malformed blocks as written
  std::vector<ParsedToolCall> calls;
  bool operator==(const SeenReply& other) const {
    if (reasoning != other.reasoning || text != other.text) return false;
    if (calls.size() != other.calls.size()) return false;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].name != other.calls[i].name) return false;
      if (calls[i].arguments != other.calls[i].arguments) return false;
    }
    return true;
  }
};

// Parses `text` cut after the lengths in `cuts`, which are used again and again; none: uncut.
// Fails through `fault` where the events are in no order that a client could follow.
inline SeenReply SeeReply(std::string_view text, std::span<const uint8_t> cuts,
                          const ToolSchemas& schemas, std::string& fault) {
  using Kind = ToolCallEvent::Kind;
  SeenReply seen;
  ThinkSplitter splitter;
  ToolCallParser parser(schemas, 0);
  bool open = false;
  const auto take = [&](const std::vector<ToolCallEvent>& events) {
    for (const ToolCallEvent& event : events) {
      switch (event.kind) {
        case Kind::kText:
          if (open) fault = "text within a call";
          seen.text += event.text;
          break;
        case Kind::kBegin:
          if (open || event.name.empty()) fault = "a call within a call, or without a name";
          open = true;
          seen.calls.push_back({event.id, event.name, "", event.declared});
          break;
        case Kind::kArguments:
          if (!open) {
            fault = "arguments of no call";
          } else {
            seen.calls.back().arguments += event.text;
          }
          break;
        case Kind::kEnd:
          if (!open) fault = "the end of no call";
          // An argument may hold what is no UTF-8, which JSON can't.
          if (open && ValidPrefix(text) == text.size() &&
              !OrderedJson::parse(seen.calls.back().arguments, nullptr, false).is_object()) {
            fault = "arguments that are no object: " + seen.calls.back().arguments;
          }
          open = false;
          break;
        case Kind::kMalformed:
          if (open) seen.calls.pop_back();
          open = false;
          seen.text += event.text;
          break;
      }
    }
  };
  size_t at = 0, cut = 0;
  while (at < text.size()) {
    const size_t length = cuts.empty()
                              ? text.size()
                              : std::min<size_t>(1 + cuts[cut++ % cuts.size()], text.size() - at);
    const ThinkSplitter::Delta delta = splitter.Push(text.substr(at, length));
    seen.reasoning += delta.reasoning;
    take(parser.Push(delta.content));
    at += length;
  }
  const ThinkSplitter::Delta rest = splitter.Flush();
  seen.reasoning += rest.reasoning;
  take(parser.Push(rest.content));
  take(parser.Flush());
  if (open) fault = "a call without an end";
  return seen;
}

// What is wrong with how `text` is parsed whole and in pieces; empty if nothing is.
inline std::string FaultOfReply(std::string_view text, std::span<const uint8_t> cuts) {
  static const ToolSchemas schemas = ToolSchemas::FromTools(OrderedJson::parse(R"([
    {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "i": {"type": "integer"},
      "b": {"type": "boolean"}, "o": {"type": "object"}, "n": {"type": "number"}}}}])"));
  std::string fault;
  const SeenReply whole = SeeReply(text, {}, schemas, fault);
  const SeenReply pieces = SeeReply(text, cuts, schemas, fault);
  if (fault.empty() && !(whole == pieces)) fault = "pieces change the meaning";
  return fault;
}

// Pieces of which replies are made, right and wrong ones.
inline const std::vector<std::string>& ReplyWords() {
  static const std::vector<std::string> words = {
      "</think>",
      "<think>",
      "\n",
      "\n\n",
      "<tool_call>",
      "</tool_call>",
      "<function=f>",
      "<function=g>",
      "<function=>",
      "</function>",
      "<parameter=s>",
      "<parameter=i>",
      "<parameter=o>",
      "<parameter=>",
      "</parameter>",
      "{\"a\": [1, 2]}",
      "12",
      "1e999",
      "true",
      "null",
      "a",
      "\"",
      "\\",
      "<",
      "</",
      ">",
      "é",
      "\xf0\x9f\x98\x80",
      "\xff",
      "\x01",
      "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</function>\n</tool_call>"};
  return words;
}

}  // namespace slotstream::text
