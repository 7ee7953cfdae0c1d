#include "server/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace slotstream::server {
namespace {

std::optional<text::Role> RoleNamed(std::string_view name) {
  if (name == "system" || name == "developer") return text::Role::kSystem;
  if (name == "user") return text::Role::kUser;
  if (name == "assistant") return text::Role::kAssistant;
  if (name == "tool" || name == "function") return text::Role::kTool;
  return std::nullopt;
}

std::optional<ApiError> ReadCalls(const Json& calls, const std::string& where, JsonBudget& budget,
                                  DraftMessage& draft) {
  for (size_t i = 0; i < calls.size(); ++i) {
    Fields call(calls[i], fmt::format("{}tool_calls[{}].", where, i));
    const Json* inner = call.Object(call.Get("custom") != nullptr ? "custom" : "function");
    Fields function(inner == nullptr ? calls[i] : *inner, where);
    const std::string name = function.String("name").value_or("");
    if (name.empty()) call.Refuse("name", "a tool call has no name");
    if (call.error()) return call.error();
    if (function.error()) return function.error();
    const Json* arguments = function.Get("arguments");
    Json read = ReadArguments(arguments, budget);
    if (const Json* input = function.Get("input")) read = {{"input", *input}};
    draft.message.tool_calls.push_back({name, std::move(read)});
    draft.call_ids.push_back(call.String("id").value_or(""));
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> ReadChatMessages(const Json& messages, ChatDraft& draft) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}].", i);
    if (!messages[i].is_object()) {
      return InvalidRequest(fmt::format("messages[{}] is no object", i), "messages");
    }
    Fields fields(messages[i], where);
    DraftMessage message;
    const std::string name = fields.String("role").value_or("");
    const auto role = RoleNamed(name);
    if (!role) {
      fields.Refuse("role",
                    fmt::format("{:?} is none of system, developer, user, assistant, tool", name));
      return fields.error();
    }
    message.message.role = *role;
    auto content = ReadContent(fields.Get("content"), fmt::format("messages[{}]", i));
    if (!content) return InvalidRequest(content.error().message, "messages");
    message.message.content = std::move(*content);
    if (const Json* images = fields.List("images")) {
      message.message.content.insert(message.message.content.begin(), images->size(),
                                     {text::ContentItem::Kind::kImage, ""});
    }
    if (*role == text::Role::kAssistant) {
      for (const char* reasoning : {"reasoning_content", "reasoning", "thinking"}) {
        const std::string_view text = TextOf(fields.Get(reasoning));
        if (message.message.reasoning.empty()) message.message.reasoning = text;
      }
      if (const Json* calls = fields.List("tool_calls")) {
        if (auto error = ReadCalls(*calls, where, draft.arguments, message)) return error;
      }
    }
    if (*role == text::Role::kTool) {
      message.answers = TextOf(fields.Get("tool_call_id"));
    }
    if (fields.error()) return fields.error();
    draft.messages.push_back(std::move(message));
  }
  return std::nullopt;
}

const Json& FreeTextParameters() {
  static const Json parameters = {{"type", "object"},
                                  {"properties", {{"input", {{"type", "string"}}}}},
                                  {"required", {"input"}}};
  return parameters;
}

std::optional<ApiError> ReadChatTools(const Json& tools, ChatDraft& draft) {
  for (size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], fmt::format("tools[{}].", i));
    const std::string type = tool.String("type").value_or("function");
    if (type != "function" && type != "custom") continue;
    const Json* wrapped = tool.Object(type.c_str());
    Fields function(wrapped == nullptr ? tools[i] : *wrapped, fmt::format("tools[{}].", i));
    const std::string name = function.String("name").value_or("");
    if (name.empty()) function.Refuse("name", "a tool needs a name");
    const std::string description = function.String("description").value_or("");
    const Json* parameters = function.Object("parameters");
    if (tool.error()) return tool.error();
    if (function.error()) return function.error();
    draft.AddTool(name, description, type == "custom" ? &FreeTextParameters() : parameters);
  }
  return std::nullopt;
}

bool HasTool(const ChatDraft& draft, std::string_view name) {
  return std::ranges::any_of(
      draft.tools, [name](const Json& tool) { return TextOf(&tool["function"]["name"]) == name; });
}

std::optional<ApiError> ReadToolChoice(const Json& choice, ChatDraft& draft) {
  if (choice.is_object()) {
    Fields fields(choice, "tool_choice.");
    const std::string_view type = TextOf(fields.Get("type"));
    if (type == "allowed_tools") {
      const Json* inner = fields.Object("allowed_tools");
      Fields allowed(inner == nullptr ? choice : *inner);
      return ReadToolChoice(Json(allowed.String("mode").value_or("auto")), draft);
    }
    const Json* inner = fields.Object(type == "custom" ? "custom" : "function");
    draft.tool_name = TextOf(Fields(inner == nullptr ? choice : *inner).Get("name"));
    if (draft.tool_name.empty()) return ReadToolChoice(Json(type), draft);
    if (!HasTool(draft, draft.tool_name)) {
      return InvalidRequest(
          fmt::format("tool_choice names {:?}, which is none of the tools", draft.tool_name),
          "tool_choice");
    }
    draft.tool_choice = ToolChoice::kNamed;
    return std::nullopt;
  }
  const std::string_view mode = TextOf(&choice);
  if (mode == "none") {
    draft.tool_choice = ToolChoice::kNone;
  } else if (mode == "required" || mode == "any") {
    draft.tool_choice = ToolChoice::kRequired;
  } else if (mode != "auto") {
    return InvalidRequest("tool_choice is none of auto, none, required and a tool", "tool_choice");
  }
  if (draft.tool_choice == ToolChoice::kRequired && draft.tools.empty()) {
    return InvalidRequest("tool_choice asks for a call, but there are no tools", "tool_choice");
  }
  return std::nullopt;
}

}  // namespace slotstream::server
