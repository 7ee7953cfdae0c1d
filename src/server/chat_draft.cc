#include "server/chat_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "server/sampling_fields.h"

namespace slotstream::server {
namespace {

using text::ContentItem;

const Json* Member(const Json& object, const char* name) { return Fields(object).Get(name); }

// Text of a part that isn't plain text: documents, search results, references.
std::string OtherText(const Json& part, std::string_view type) {
  if (type == "tool_reference") {
    return fmt::format("Tool available: {}", TextOf(Member(part, "tool_name")));
  }
  if (const Json* source = Member(part, "source"); source != nullptr && source->is_object()) {
    if (const std::string_view data = TextOf(Member(*source, "data"));
        TextOf(Member(*source, "type")) == "text" && !data.empty()) {
      return std::string(data);
    }
  }
  for (const char* name : {"text", "refusal", "thinking", "content", "output"}) {
    const Json* value = Member(part, name);
    if (value == nullptr) continue;
    if (value->is_string()) return value->get<std::string>();
    if (!value->is_array()) continue;
    std::string joined;
    for (const Json& inner : *value) {
      if (!inner.is_object()) continue;
      if (!joined.empty()) joined += "\n";
      joined += TextOf(Member(inner, "text"));
    }
    return joined;
  }
  return fmt::format("[{} was here, which this server cannot show]",
                     type.empty() ? "something" : type);
}

ContentItem ReadPart(const Json& part) {
  const std::string_view type = TextOf(Member(part, "type"));
  constexpr std::array<std::string_view, 3> kPictures = {"image_url", "input_image", "image"};
  if (std::ranges::find(kPictures, type) != kPictures.end()) {
    return {ContentItem::Kind::kImage, ""};
  }
  const Json* text = Member(part, "text");
  if (text != nullptr && text->is_string()) {
    return {ContentItem::Kind::kText, text->get<std::string>()};
  }
  return {ContentItem::Kind::kText, OtherText(part, type)};
}

// Answers in the order of their calls; clients may send them in any. Answers without an id, or
// with an unknown one, stay where they are relative to each other, behind the known.
void OrderAnswers(std::vector<DraftMessage>& messages) {
  const std::vector<std::string>* calls = nullptr;
  for (size_t i = 0; i < messages.size();) {
    if (messages[i].message.role != text::Role::kTool) {
      const bool assistant = messages[i].message.role == text::Role::kAssistant;
      calls = assistant ? &messages[i].call_ids : nullptr;
      ++i;
      continue;
    }
    size_t end = i;
    while (end < messages.size() && messages[end].message.role == text::Role::kTool) ++end;
    if (calls != nullptr) {
      std::unordered_map<std::string_view, size_t> places;
      for (size_t call = 0; call < calls->size(); ++call) {
        if (!(*calls)[call].empty()) places.emplace((*calls)[call], call);
      }
      const auto place = [&](const DraftMessage& answer) {
        const auto found = places.find(answer.answers);
        return found == places.end() ? calls->size() : found->second;
      };
      std::stable_sort(
          messages.begin() + static_cast<ptrdiff_t>(i),
          messages.begin() + static_cast<ptrdiff_t>(end),
          [&](const DraftMessage& a, const DraftMessage& b) { return place(a) < place(b); });
    }
    i = end;
    calls = nullptr;
  }
}

}  // namespace

void ChatDraft::AddTool(std::string_view name, std::string_view description,
                        const Json* parameters) {
  Json function = {{"name", name}};
  if (!description.empty()) function["description"] = description;
  if (parameters != nullptr) function["parameters"] = *parameters;
  tools.push_back({{"type", "function"}, {"function", std::move(function)}});
}

DraftMessage& ChatDraft::AssistantTurn() {
  if (messages.empty() || messages.back().message.role != text::Role::kAssistant) {
    messages.push_back({});
    messages.back().message.role = text::Role::kAssistant;
  }
  return messages.back();
}

Result<std::vector<ContentItem>> ReadContent(const Json* content, std::string_view where) {
  std::vector<ContentItem> items;
  if (content == nullptr || content->is_null()) return items;
  if (content->is_string()) {
    items.push_back({ContentItem::Kind::kText, content->get<std::string>()});
    return items;
  }
  if (content->is_object()) {
    items.push_back(ReadPart(*content));
    return items;
  }
  if (!content->is_array()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: content is neither text nor a list of parts", where));
  }
  for (const Json& part : *content) {
    if (part.is_string()) {
      items.push_back({ContentItem::Kind::kText, part.get<std::string>()});
    } else if (part.is_object()) {
      items.push_back(ReadPart(part));
    } else {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: a part of content is neither an object nor text", where));
    }
  }
  return items;
}

Result<std::string> ReadText(const Json* content, std::string_view where) {
  SS_ASSIGN_OR_RETURN(const std::vector<ContentItem> items, ReadContent(content, where));
  std::string text;
  for (const ContentItem& item : items) {
    text += item.kind == ContentItem::Kind::kText ? item.text : "[picture]";
  }
  return text;
}

Json ReadArguments(const Json* arguments, JsonBudget& budget) {
  if (arguments == nullptr) return Json::object();
  if (arguments->is_object()) return *arguments;
  const std::string_view text = TextOf(arguments);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return Json::object();
  auto parsed = ParseObject(text, budget);
  return parsed ? *std::move(parsed) : Json{{"arguments", text}};
}

bool ApplyEffort(std::string_view level, ChatDraft& draft) {
  if (level == "none" || level == "minimal" || level == "off") {
    draft.thinking = false;
    return true;
  }
  if (level == "low" || level == "medium") {
    draft.effort = level;
  } else if (level == "high" || level == "xhigh" || level == "max") {
    draft.effort = "xhigh";
  } else {
    return false;
  }
  draft.thinking = true;
  return true;
}

FinishedChat FinishChat(ChatDraft draft) {
  FinishedChat finished;
  OrderAnswers(draft.messages);
  for (DraftMessage& message : draft.messages) {
    finished.chat.messages.push_back(std::move(message.message));
  }
  const bool has_tools = !draft.tools.empty() && draft.tool_choice != ToolChoice::kNone;
  if (has_tools) {
    if (draft.tool_choice != ToolChoice::kAuto) {
      draft.thinking = false;
      finished.reply_start = "<tool_call>\n<function=";
      if (draft.tool_choice == ToolChoice::kRequired && draft.tools.size() == 1) {
        draft.tool_name = draft.tools[0]["function"]["name"].get<std::string>();
      }
      if (!draft.tool_name.empty()) finished.reply_start += draft.tool_name + ">\n";
    }
    finished.chat.tools = std::move(draft.tools);
  }
  finished.chat.enable_thinking = draft.thinking;
  finished.chat.reasoning_effort = draft.effort;
  return finished;
}

void SetChat(ChatDraft draft, engine::Request& request) {
  FinishedChat finished = FinishChat(std::move(draft));
  request.sampling =
      DefaultSampling(finished.chat.enable_thinking.value_or(false), !finished.chat.tools.empty());
  request.chat = std::move(finished.chat);
  request.reply_start = std::move(finished.reply_start);
}

}  // namespace slotstream::server
