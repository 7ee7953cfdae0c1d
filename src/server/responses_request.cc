#include "server/responses_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/chat_messages.h"
#include "server/reply_format.h"
#include "server/sampling_fields.h"

namespace slotstream::server {
namespace {

using text::ContentItem;

// Bytes of one member. All members together, twice, as a stream begins, stay below what a
// ResponseStream lets wait.
constexpr size_t kMostEchoed = 64 * 1024;

std::string FlatName(std::string_view name_space, std::string_view name) {
  return name_space.empty() ? std::string(name) : fmt::format("{}.{}", name_space, name);
}

// The turn that an item of the model's own output belongs to: the last, unless that already has
// what can only come after this item.
DraftMessage& Turn(ChatDraft& draft, bool after_text) {
  if (!draft.messages.empty()) {
    const text::ChatMessage& last = draft.messages.back().message;
    const bool closed = !last.tool_calls.empty() || (after_text && !last.content.empty());
    if (last.role == text::Role::kAssistant && closed) {
      draft.messages.push_back({});
      draft.messages.back().message.role = text::Role::kAssistant;
    }
  }
  return draft.AssistantTurn();
}

std::optional<ApiError> ReadMessage(Fields& fields, const std::string& where, ChatDraft& draft) {
  auto content = ReadContent(fields.Get("content"), where);
  if (!content) return InvalidRequest(content.error().message, "input");
  const std::string role = fields.String("role").value_or("user");
  if (role == "assistant") {
    Turn(draft, true).message.content = std::move(*content);
    return std::nullopt;
  }
  DraftMessage message;
  if (role == "system" || role == "developer") {
    message.message.role = text::Role::kSystem;
  } else if (role != "user") {
    fields.Refuse("role", fmt::format("{:?} is none of system, developer, user, assistant", role));
    return fields.error();
  }
  message.message.content = std::move(*content);
  draft.messages.push_back(std::move(message));
  return std::nullopt;
}

std::string ReasoningText(Fields& fields) {
  std::string text;
  for (const char* name : {"content", "summary"}) {
    const Json* parts = fields.Get(name);
    if (parts == nullptr || !parts->is_array() || !text.empty()) continue;
    for (const Json& part : *parts) {
      if (part.is_object()) text += TextOf(Fields(part).Get("text"));
    }
  }
  return text;
}

void ReadCallItem(Fields& fields, bool custom, ChatDraft& draft) {
  const std::string name = fields.String("name").value_or("");
  if (name.empty()) fields.Refuse("name", "a call has no name");
  if (draft.messages.empty() || draft.messages.back().message.role != text::Role::kAssistant) {
    draft.AssistantTurn();
  }
  DraftMessage& turn = draft.messages.back();
  Json arguments = custom ? Json{{"input", TextOf(fields.Get("input"))}}
                          : ReadArguments(fields.Get("arguments"), draft.arguments);
  turn.message.tool_calls.push_back(
      {FlatName(TextOf(fields.Get("namespace")), name), std::move(arguments)});
  turn.call_ids.push_back(std::string(TextOf(fields.Get("call_id"))));
}

std::optional<ApiError> ReadItem(const Json& item, const std::string& where, ChatDraft& draft) {
  if (!item.is_object()) return InvalidRequest(where + " is no object", "input");
  Fields fields(item, where);
  const std::string type = fields.String("type").value_or("message");
  if (type == "message") {
    if (auto error = ReadMessage(fields, where, draft)) return error;
  } else if (type == "reasoning") {
    text::ChatMessage& message = Turn(draft, true).message;
    message.reasoning += ReasoningText(fields);
  } else if (type == "function_call" || type == "custom_tool_call") {
    ReadCallItem(fields, type == "custom_tool_call", draft);
  } else if (type == "function_call_output" || type == "custom_tool_call_output") {
    auto content = ReadContent(fields.Get("output"), where);
    if (!content) return InvalidRequest(content.error().message, "input");
    DraftMessage answer;
    answer.message.role = text::Role::kTool;
    answer.message.content = std::move(*content);
    answer.answers = TextOf(fields.Get("call_id"));
    draft.messages.push_back(std::move(answer));
  }
  return fields.error();
}

std::optional<ApiError> ReadInput(Fields& fields, ResponsesCall& call, ChatDraft& draft) {
  if (const auto instructions = fields.String("instructions");
      instructions && !instructions->empty()) {
    draft.messages.push_back({});
    draft.messages.back().message.role = text::Role::kSystem;
    draft.messages.back().message.content = {{ContentItem::Kind::kText, *instructions}};
  }
  const Json* input = fields.Get("input");
  if (input == nullptr || (input->is_array() && input->empty()) || *input == "") {
    call.empty = true;
    return std::nullopt;
  }
  if (input->is_string()) {
    draft.messages.push_back({});
    draft.messages.back().message.content = {{ContentItem::Kind::kText, input->get<std::string>()}};
    return std::nullopt;
  }
  if (!input->is_array()) return InvalidRequest("input: neither text nor a list", "input");
  for (size_t i = 0; i < input->size(); ++i) {
    if (auto error = ReadItem((*input)[i], fmt::format("input[{}].", i), draft)) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> ReadTools(const Json& tools, std::string_view name_space,
                                  ResponsesCall& call, ChatDraft& draft) {
  for (size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], fmt::format("tools[{}].", i));
    const std::string type = tool.String("type").value_or("");
    const std::string name = tool.String("name").value_or("");
    if (type == "namespace" && name_space.empty()) {
      const Json* inner = tool.List("tools");
      if (inner == nullptr) continue;
      if (auto error = ReadTools(*inner, name, call, draft)) return error;
    }
    // The others run on OpenAI's servers.
    const bool custom = type == "custom";
    if (type != "function" && !custom) continue;
    if (name.empty()) tool.Refuse("name", "a tool needs a name");
    const std::string description = tool.String("description").value_or("");
    const Json* parameters = tool.Object("parameters");
    const bool strict = tool.Bool("strict").value_or(false);
    if (tool.error()) return tool.error();
    const std::string flat = FlatName(name_space, name);
    if (strict) draft.shape.strict.insert(flat);
    call.tools[flat] = {name, std::string(name_space), custom};
    draft.AddTool(flat, description, custom ? &FreeTextParameters() : parameters);
  }
  return std::nullopt;
}

void ReadReasoning(Fields& fields, ChatDraft& draft) {
  const Json* reasoning = fields.Object("reasoning");
  if (reasoning == nullptr) return;
  Fields inner(*reasoning, "reasoning.");
  const std::string_view effort = TextOf(inner.Get("effort"));
  if (effort.empty()) {
    // Codex asks for reasoning without a level unless its user chose one.
    draft.thinking = true;
    draft.effort = "medium";
  } else if (!ApplyEffort(effort, draft)) {
    fields.Refuse("reasoning.effort", "no such level");
  }
}

void RefuseUnkept(Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation"}) {
    if (fields.Get(name) != nullptr) {
      fields.Refuse(name, "this server keeps no conversations; send the whole input");
    }
  }
  if (fields.Bool("background").value_or(false)) {
    fields.Refuse("background", "this server answers in the foreground only");
  }
}

// Probabilities are asked for by their place in the answer, or by how many there should be.
void ReadLogProbsOfText(Fields& fields, engine::Request& request) {
  const int64_t top = fields.Integer("top_logprobs").value_or(0);
  if (top < 0 || top > static_cast<int64_t>(generate::kMostAlternatives)) {
    fields.Refuse("top_logprobs", fmt::format("not from 0 to {}", generate::kMostAlternatives));
    return;
  }
  const Json* include = fields.List("include");
  const Json wanted = "message.output_text.logprobs";
  const bool included =
      include != nullptr && std::find(include->begin(), include->end(), wanted) != include->end();
  if (included || top > 0) request.alternatives = static_cast<size_t>(top);
}

// What a response repeats of its request. Several events carry it, so what is long is left out.
Json Echo(const Fields& fields) {
  Json echo = Json::object();
  const auto keep = [&](const char* name, Json otherwise) {
    const Json* value = fields.Get(name);
    const bool kept = value != nullptr && Dump(*value).size() <= kMostEchoed;
    echo[name] = kept ? *value : std::move(otherwise);
  };
  keep("instructions", nullptr);
  keep("max_output_tokens", nullptr);
  keep("metadata", Json::object());
  keep("parallel_tool_calls", true);
  keep("prompt_cache_key", nullptr);
  keep("reasoning", Json::object());
  keep("temperature", nullptr);
  keep("text", {{"format", {{"type", "text"}}}});
  keep("tool_choice", "auto");
  keep("tools", Json::array());
  keep("top_logprobs", 0);
  keep("top_p", nullptr);
  return echo;
}

}  // namespace

std::optional<ApiError> ReadResponsesCall(const Json& body, ResponsesCall& call) {
  Fields fields(body);
  RefuseUnkept(fields);
  if (fields.error()) return fields.error();
  ChatDraft draft;
  if (auto error = ReadInput(fields, call, draft)) return error;
  if (const Json* tools = fields.List("tools")) {
    if (auto error = ReadTools(*tools, "", call, draft)) return error;
  }
  if (const Json* choice = fields.Get("tool_choice")) {
    if (auto error = ReadToolChoice(*choice, draft)) return error;
  }
  ReadReasoning(fields, draft);
  engine::Request& request = call.request;
  if (const Json* text = fields.Object("text")) {
    Fields inner(*text, "text.");
    if (const Json* format = inner.Object("format")) {
      if (auto error = ReadFormat(*format, "text.format", draft.shape)) return error;
    }
    if (inner.error()) return inner.error();
  }
  if (auto error = SetChat(std::move(draft), request)) return error;
  ReadSampling(fields, request.sampling);
  // An agent's patch may be long, and nothing says how long.
  request.sampling.max_tokens = generate::kMaxTokensCeiling;
  request.single_call = !fields.Bool("parallel_tool_calls").value_or(true);
  request.sampling.stop = fields.Strings("stop");
  ReadLogProbsOfText(fields, request);
  ReadMaxTokens(fields, "max_output_tokens", request.sampling);
  request.hints.session = fields.String("prompt_cache_key").value_or("");
  call.model = fields.String("model").value_or("");
  call.stream = fields.Bool("stream").value_or(false);
  call.echo = Echo(fields);
  return fields.error();
}

}  // namespace slotstream::server
