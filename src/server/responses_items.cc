#include "server/responses_items.h"

#include <utility>

#include "server/chat_draft.h"
#include "server/log_probs.h"

namespace slotstream::server {

Json ReasoningItem(const std::string& id, const std::string& text, std::string_view status) {
  Json item = {{"id", id},
               {"type", "reasoning"},
               {"summary", Json::array()},
               {"content", Json::array()},
               // A token for clients that insist on one; the text beside it is what counts.
               {"encrypted_content", "slotstream-" + id},
               {"status", status}};
  if (!text.empty()) item["content"].push_back({{"type", "reasoning_text"}, {"text", text}});
  return item;
}

Json MessageItem(const std::string& id, const std::string& text, std::string_view status,
                 Json log_probs) {
  Json item = {{"id", id},
               {"type", "message"},
               {"role", "assistant"},
               {"status", status},
               {"content", Json::array()}};
  if (status != "in_progress") {
    item["content"].push_back({{"type", "output_text"},
                               {"text", text},
                               {"annotations", Json::array()},
                               {"logprobs", std::move(log_probs)}});
  }
  return item;
}

const ResponsesTool* FindTool(const ResponsesTools& tools, std::string_view name) {
  if (const auto found = tools.find(name); found != tools.end()) return &found->second;
  // Models leave the bundle's name out; where only one tool can be meant, it is.
  const ResponsesTool* only = nullptr;
  for (const auto& [flat, tool] : tools) {
    if (tool.name != name) continue;
    if (only != nullptr) return nullptr;
    only = &tool;
  }
  return only;
}

std::string CustomInput(const CollectedCall& call) {
  const auto arguments = ParseBody(call.arguments);
  if (!arguments) return call.arguments;
  const Json* input = Fields(*arguments).Get("input");
  return input != nullptr && input->is_string() ? input->get<std::string>() : call.arguments;
}

Json CallItem(const std::string& id, const CollectedCall& call, const ResponsesTools& tools,
              std::string_view status) {
  const ResponsesTool* tool = FindTool(tools, call.name);
  const bool custom = tool != nullptr && tool->custom;
  Json item = {{"id", id},
               {"type", custom ? "custom_tool_call" : "function_call"},
               {"call_id", call.id},
               {"name", tool == nullptr ? call.name : tool->name}};
  if (tool != nullptr && !tool->name_space.empty()) item["namespace"] = tool->name_space;
  if (custom) {
    item["input"] = status == "in_progress" ? "" : CustomInput(call);
  } else {
    item["arguments"] = call.arguments;
  }
  item["status"] = status;
  return item;
}

Json ReplyItems(const CollectedReply& reply, const ResponsesTools& tools,
                const text::Tokenizer* tokenizer, IdSource& ids) {
  Json items = Json::array();
  if (!reply.reasoning.empty()) {
    items.push_back(ReasoningItem(ids.Next("rs_"), reply.reasoning, "completed"));
  }
  if (!reply.text.empty()) {
    Json log_probs = Json::array();
    if (tokenizer != nullptr) log_probs = LogProbsJson(*tokenizer, reply.tokens);
    items.push_back(MessageItem(ids.Next("msg_"), reply.text, "completed", std::move(log_probs)));
  }
  for (const CollectedCall& call : reply.calls) {
    items.push_back(CallItem(ids.Next("fc_"), call, tools, "completed"));
  }
  return items;
}

Json ResponsesUsage(const generate::GenerationResult& result) {
  return {{"input_tokens", result.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", result.cached_tokens}}},
          {"output_tokens", result.output.size()},
          {"output_tokens_details", {{"reasoning_tokens", result.reasoning_tokens}}},
          {"total_tokens", result.prompt_tokens + result.output.size()}};
}

}  // namespace slotstream::server
