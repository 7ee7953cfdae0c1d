#include "text/chat_request.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace slotstream::text {
namespace {

std::unexpected<Error> Invalid(size_t index, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("messages[{}]: {}", index, what));
}

// A member that is there and not null.
const OrderedJson* Member(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool IsType(const OrderedJson& item, std::string_view type) {
  const OrderedJson* value = Member(item, "type");
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == type;
}

Result<Role> ParseRole(const OrderedJson& message, size_t index) {
  const OrderedJson* value = Member(message, "role");
  if (value == nullptr || !value->is_string()) return Invalid(index, "there is no role");
  const auto& role = value->get_ref<const std::string&>();
  if (role == "system") return Role::kSystem;
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "tool") return Role::kTool;
  return Invalid(index, fmt::format("unknown role {:?}", role));
}

Result<std::vector<ContentItem>> ParseContent(const OrderedJson& message, size_t index) {
  const OrderedJson* content = Member(message, "content");
  std::vector<ContentItem> items;
  if (content == nullptr) return items;
  if (content->is_string()) {
    items.push_back({ContentItem::Kind::kText, content->get<std::string>()});
    return items;
  }
  if (!content->is_array()) return Invalid(index, "content is neither text nor a list");
  for (const OrderedJson& item : *content) {
    if (!item.is_object()) return Invalid(index, "a content item is not an object");
    if (item.contains("image") || item.contains("image_url") || IsType(item, "image")) {
      items.push_back({ContentItem::Kind::kImage, ""});
    } else if (item.contains("video") || IsType(item, "video")) {
      items.push_back({ContentItem::Kind::kVideo, ""});
    } else if (const OrderedJson* text = Member(item, "text"); text && text->is_string()) {
      items.push_back({ContentItem::Kind::kText, text->get<std::string>()});
    } else {
      return Invalid(index, "a content item has neither text nor an image nor a video");
    }
  }
  return items;
}

Result<ToolCall> ParseToolCall(const OrderedJson& wrapped, size_t index) {
  if (!wrapped.is_object()) return Invalid(index, "a tool call is not an object");
  const OrderedJson* inner = Member(wrapped, "function");
  const OrderedJson& call = inner != nullptr ? *inner : wrapped;
  const OrderedJson* name = call.is_object() ? Member(call, "name") : nullptr;
  if (name == nullptr || !name->is_string()) return Invalid(index, "a tool call has no name");
  ToolCall result{name->get<std::string>(), OrderedJson::object()};
  const OrderedJson* arguments = Member(call, "arguments");
  const bool none = arguments == nullptr || *arguments == "";
  if (none) return result;
  if (!arguments->is_object()) return Invalid(index, "arguments of a tool call are no object");
  if (DeeperThan(*arguments, kDeepestJson)) {
    return Invalid(index, "arguments of a tool call are nested too deep");
  }
  result.arguments = *arguments;
  return result;
}

Result<ChatMessage> ParseMessage(const OrderedJson& value, size_t index) {
  if (!value.is_object()) return Invalid(index, "not an object");
  ChatMessage message;
  SS_ASSIGN_OR_RETURN(message.role, ParseRole(value, index));
  SS_ASSIGN_OR_RETURN(message.content, ParseContent(value, index));
  if (const OrderedJson* reasoning = Member(value, "reasoning_content");
      reasoning != nullptr && reasoning->is_string()) {
    message.reasoning = reasoning->get<std::string>();
  }
  if (const OrderedJson* calls = Member(value, "tool_calls")) {
    if (!calls->is_array()) return Invalid(index, "tool_calls is not a list");
    for (const OrderedJson& call : *calls) {
      SS_ASSIGN_OR_RETURN(ToolCall parsed, ParseToolCall(call, index));
      message.tool_calls.push_back(std::move(parsed));
    }
  }
  return message;
}

}  // namespace

Result<std::vector<ChatMessage>> ParseMessages(const OrderedJson& messages) {
  if (!messages.is_array()) {
    return Fail(ErrorCode::kInvalidArgument, "messages is not a list");
  }
  std::vector<ChatMessage> result;
  for (size_t i = 0; i < messages.size(); ++i) {
    SS_ASSIGN_OR_RETURN(ChatMessage message, ParseMessage(messages[i], i));
    result.push_back(std::move(message));
  }
  return result;
}

}  // namespace slotstream::text
