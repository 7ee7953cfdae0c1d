// A conversation as the chat template takes it, and its reading from request JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/json_text.h"

namespace slotstream::text {

enum class Role { kSystem, kUser, kAssistant, kTool };

struct ContentItem {
  enum class Kind { kText, kImage, kVideo };
  Kind kind = Kind::kText;
  std::string text;  // of kText
};

struct ToolCall {
  std::string name;
  OrderedJson arguments = OrderedJson::object();  // an object, its keys in their order
};

struct ChatMessage {
  Role role = Role::kUser;
  std::vector<ContentItem> content;  // plain text is one item
  std::string reasoning;             // of an assistant message
  std::vector<ToolCall> tool_calls;  // of an assistant message
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  OrderedJson tools;  // a list of OpenAI function objects, or null
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;
  std::string reasoning_effort = "xhigh";  // "xhigh", "medium" or "low"
  std::optional<bool> preserve_thinking;
  bool add_vision_id = false;
  // Takes what agents send and the template refuses: system messages anywhere, each a turn of its
  // own in its place, pictures in them left out; a tool's answer first; no question at all.
  bool any_order = false;
};

// Reads a list of messages: role, content (text, null, or a list of items with text, image or
// video), reasoning_content, tool_calls (name and arguments, perhaps within `function`).
// Errors: kInvalidArgument with the message's index. Roles other than the four are errors, and so
// are arguments that are JSON text: servers map and parse both before.
Result<std::vector<ChatMessage>> ParseMessages(const OrderedJson& messages);

}  // namespace slotstream::text
