#include "server/anthropic_request.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "server/chat_messages.h"
#include "server/sampling_fields.h"

namespace slotstream::server {
namespace {

using text::ContentItem;

// Claude Code's first line differs with every conversation and says nothing to a model; left in,
// no two conversations would share the beginning of their prompts.
constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

// Blocks of text are paragraphs, in Anthropic's words.
constexpr std::string_view kBetweenBlocks = "\n\n";

// Thinking budgets in tokens below which an effort is meant; the reference product's.
constexpr int64_t kLowBudget = 4096, kMediumBudget = 16384;

std::string_view WithoutBilling(std::string_view text) {
  if (!text.starts_with(kBillingLine)) return text;
  const size_t end = text.find('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

void AddText(std::string_view text, std::vector<ContentItem>& content) {
  if (text.empty()) return;
  if (!content.empty() && content.back().kind == ContentItem::Kind::kText) {
    content.back().text += kBetweenBlocks;
    content.back().text += text;
  } else {
    content.push_back({ContentItem::Kind::kText, std::string(text)});
  }
}

std::optional<ApiError> AddContent(const Json* blocks, std::string_view where,
                                   std::vector<ContentItem>& content) {
  auto items = ReadContent(blocks, where);
  if (!items) return InvalidRequest(items.error().message, std::string(where));
  for (ContentItem& item : *items) {
    if (item.kind == ContentItem::Kind::kText) {
      AddText(WithoutBilling(item.text), content);
    } else {
      content.push_back(std::move(item));
    }
  }
  return std::nullopt;
}

std::optional<ApiError> AddSystem(const Json* system, std::string_view where, ChatDraft& draft) {
  DraftMessage message;
  message.message.role = text::Role::kSystem;
  if (auto error = AddContent(system, where, message.message.content)) return error;
  if (!message.message.content.empty()) draft.messages.push_back(std::move(message));
  return std::nullopt;
}

std::string_view BlockType(const Json& block) {
  return block.is_object() ? TextOf(Fields(block).Get("type")) : std::string_view();
}

// A user's turn: answers of tools become messages of their own, what else there is follows.
std::optional<ApiError> ReadUser(const Json& blocks, const std::string& where, ChatDraft& draft) {
  DraftMessage message;
  Json others = Json::array();
  bool answers = false;
  for (const Json& block : blocks) {
    if (BlockType(block) != "tool_result") {
      others.push_back(block);
      continue;
    }
    Fields fields(block, where);
    DraftMessage answer;
    answer.message.role = text::Role::kTool;
    answer.answers = TextOf(fields.Get("tool_use_id"));
    if (auto error = AddContent(fields.Get("content"), where, answer.message.content)) return error;
    if (fields.Bool("is_error").value_or(false)) {
      answer.message.content.insert(answer.message.content.begin(),
                                    {ContentItem::Kind::kText, "Error: "});
    }
    if (fields.error()) return fields.error();
    draft.messages.push_back(std::move(answer));
    answers = true;
  }
  if (auto error = AddContent(&others, where, message.message.content)) return error;
  if (!answers || !message.message.content.empty()) draft.messages.push_back(std::move(message));
  return std::nullopt;
}

std::optional<ApiError> ReadAssistant(const Json& blocks, const std::string& where,
                                      ChatDraft& draft) {
  DraftMessage message;
  message.message.role = text::Role::kAssistant;
  for (const Json& block : blocks) {
    const std::string_view type = BlockType(block);
    Fields fields(block, where);
    if (type == "thinking") {
      if (!message.message.reasoning.empty()) message.message.reasoning += '\n';
      message.message.reasoning += TextOf(fields.Get("thinking"));
    } else if (type == "tool_use") {
      const std::string name = fields.String("name").value_or("");
      if (name.empty()) fields.Refuse("name", "a tool_use block has no name");
      if (fields.error()) return fields.error();
      message.message.tool_calls.push_back(
          {name, ReadArguments(fields.Get("input"), draft.arguments)});
      message.call_ids.push_back(std::string(TextOf(fields.Get("id"))));
    } else if (type == "text" || block.is_string()) {
      const Json list = Json::array({block});
      if (auto error = AddContent(&list, where, message.message.content)) return error;
    }
  }
  draft.messages.push_back(std::move(message));
  return std::nullopt;
}

std::optional<ApiError> ReadMessages(const Json& messages, ChatDraft& draft) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages.{}.", i);
    if (!messages[i].is_object()) return InvalidRequest(where + " is no object", "messages");
    Fields fields(messages[i], where);
    const std::string role = fields.String("role").value_or("");
    const Json* content = fields.Get("content");
    const Json empty = Json::array();
    const Json text = content != nullptr && content->is_string() ? Json::array({*content}) : empty;
    const Json& blocks = content != nullptr && content->is_array() ? *content : text;
    if (content != nullptr && !content->is_string() && !content->is_array()) {
      fields.Refuse("content", "neither text nor a list of blocks");
    }
    if (fields.error()) return fields.error();
    std::optional<ApiError> error;
    if (role == "user") {
      error = ReadUser(blocks, where, draft);
    } else if (role == "assistant") {
      error = ReadAssistant(blocks, where, draft);
    } else if (role == "system") {
      error = AddSystem(&blocks, where, draft);
    } else {
      fields.Refuse("role", fmt::format("{:?} is none of user, assistant, system", role));
      error = fields.error();
    }
    if (error) return error;
  }
  return std::nullopt;
}

// Tools that the client runs; those of Anthropic's own servers are skipped.
std::optional<ApiError> ReadTools(const Json& tools, ChatDraft& draft) {
  for (size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], fmt::format("tools.{}.", i));
    const std::string type = tool.String("type").value_or("custom");
    if (type != "custom") continue;
    const std::string name = tool.String("name").value_or("");
    if (name.empty()) tool.Refuse("name", "a tool needs a name");
    const std::string description = tool.String("description").value_or("");
    const Json* schema = tool.Object("input_schema");
    if (tool.error()) return tool.error();
    draft.AddTool(name, description, schema);
  }
  return std::nullopt;
}

std::optional<ApiError> ReadChoice(const Json& choice, ChatDraft& draft, engine::Request& request) {
  Fields fields(choice, "tool_choice.");
  request.single_call = fields.Bool("disable_parallel_tool_use").value_or(false);
  if (fields.error()) return fields.error();
  const std::string_view type = TextOf(fields.Get("type"));
  if (type != "tool") return ReadToolChoice(Json(type.empty() ? "auto" : type), draft);
  return ReadToolChoice(Json{{"name", TextOf(fields.Get("name"))}}, draft);
}

void ReadThinking(Fields& fields, ChatDraft& draft) {
  const Json* output = fields.Object("output_config");
  const std::string_view effort = output == nullptr ? "" : TextOf(Fields(*output).Get("effort"));
  if (output != nullptr && Fields(*output).Get("format") != nullptr) {
    fields.Refuse("output_config.format", "not offered: replies are not held to a grammar");
  }
  const Json* thinking = fields.Object("thinking");
  if (thinking == nullptr) return;
  Fields inner(*thinking, "thinking.");
  const std::string_view type = TextOf(inner.Get("type"));
  if (type == "disabled") return;
  if (type != "enabled" && type != "adaptive") {
    fields.Refuse("thinking", "its type is none of enabled, adaptive, disabled");
    return;
  }
  draft.thinking = true;
  if (!effort.empty()) {
    if (!ApplyEffort(effort, draft)) fields.Refuse("output_config.effort", "no such level");
    draft.thinking = true;
    return;
  }
  if (const auto budget = inner.Integer("budget_tokens")) {
    draft.effort = *budget < kLowBudget ? "low" : *budget < kMediumBudget ? "medium" : "xhigh";
  }
}

}  // namespace

std::optional<ApiError> ReadAnthropicCall(const Json& body, AnthropicCall& call) {
  Fields fields(body);
  if (fields.Get("thread") != nullptr) {
    // These words make Anthropic's own tool runners send the whole conversation instead.
    ApiError error = InvalidRequest("thread: this server keeps no threads", "thread");
    error.details = R"({"error_code":"thread_unsupported_request","unsupported":["thread"]})";
    return error;
  }
  ChatDraft draft;
  if (auto error = AddSystem(fields.Get("system"), "system", draft)) return error;
  const Json* messages = fields.List("messages");
  if (messages == nullptr) fields.Refuse("messages", "there are none");
  if (fields.error()) return fields.error();
  if (auto error = ReadMessages(*messages, draft)) return error;
  if (const Json* tools = fields.List("tools")) {
    if (auto error = ReadTools(*tools, draft)) return error;
  }
  if (const Json* choice = fields.Object("tool_choice")) {
    if (auto error = ReadChoice(*choice, draft, call.request)) return error;
  }
  ReadThinking(fields, draft);
  engine::Request& request = call.request;
  SetChat(std::move(draft), request);
  ReadSampling(fields, request.sampling);
  request.sampling.stop = fields.Strings("stop_sequences");
  ReadMaxTokens(fields, "max_tokens", request.sampling);
  call.model = fields.String("model").value_or("");
  call.stream = fields.Bool("stream").value_or(false);
  return fields.error();
}

}  // namespace slotstream::server
