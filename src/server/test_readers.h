// A body read as every dialect would, as far as the model's prompt; for tests and fuzzers.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/anthropic_request.h"
#include "server/json_fields.h"
#include "server/ollama_generation.h"
#include "server/openai_chat.h"
#include "server/openai_completions.h"
#include "server/responses_request.h"
#include "text/chat_template.h"
#include "text/tool_schema.h"

namespace slotstream::server {

// What is wrong with a request that a reader let through, or nothing.
inline std::string FaultOf(const engine::Request& request) {
  const generate::SamplingParams sampling = request.sampling.Sanitized();
  for (float value : {sampling.temperature, sampling.top_p, sampling.min_p}) {
    if (!std::isfinite(value) || value < 0) return fmt::format("a sampling setting of {}", value);
  }
  if (sampling.max_tokens < 1 || sampling.max_tokens > generate::kMaxTokensCeiling) {
    return fmt::format("a limit of {} tokens", sampling.max_tokens);
  }
  if (!request.chat) return {};
  text::ChatRequest chat = *request.chat;
  chat.any_order = true;
  const auto prompt = text::RenderChat(chat);
  if (!prompt) return prompt.error().code == ErrorCode::kInvalidArgument ? "" : "an odd refusal";
  size_t end = 0;
  for (const text::TextRange& range : prompt->content) {
    if (range.begin < end || range.end <= range.begin || range.end > prompt->text.size()) {
      return "ranges of content that overlap or leave the prompt";
    }
    end = range.end;
  }
  text::ToolSchemas::FromTools(chat.tools);
  return {};
}

inline std::string FaultOf(const std::optional<ApiError>& error, ErrorForm form,
                           const engine::Request& request) {
  if (!error) return FaultOf(request);
  if (error->kind != ApiError::Kind::kInvalid) return "a body's error that is not its sender's";
  const Json body = Json::parse(ErrorBody(form, *error), nullptr, false);
  return body.is_object() && body.contains("error") ? "" : "an error that is no JSON";
}

// Reads `body` in every dialect. Returns what one of them did that none may; empty if all is well.
inline std::string FaultOfReaders(std::string_view body) {
  const auto json = ParseBody(body);
  if (!json) return json.error().code == ErrorCode::kInvalidArgument ? "" : "an odd refusal";
  OpenAiCall chat;
  OpenAiCall completion;
  ResponsesCall responses;
  AnthropicCall anthropic;
  OllamaCall ollama_chat, ollama_generate;
  const std::vector<std::pair<const char*, std::function<std::string()>>> readers = {
      {"chat",
       [&] { return FaultOf(ReadOpenAiChatCall(*json, chat), ErrorForm::kOpenAi, chat.request); }},
      {"completions",
       [&] {
         return FaultOf(ReadOpenAiCompletionCall(*json, nullptr, completion), ErrorForm::kOpenAi,
                        completion.request);
       }},
      {"responses",
       [&] {
         return FaultOf(ReadResponsesCall(*json, responses), ErrorForm::kOpenAi, responses.request);
       }},
      {"messages",
       [&] {
         return FaultOf(ReadAnthropicCall(*json, anthropic), ErrorForm::kAnthropic,
                        anthropic.request);
       }},
      {"ollama chat",
       [&] {
         return FaultOf(ReadOllamaChat(*json, ollama_chat), ErrorForm::kOllama,
                        ollama_chat.request);
       }},
      {"ollama generate", [&] {
         return FaultOf(ReadOllamaGenerate(*json, nullptr, ollama_generate), ErrorForm::kOllama,
                        ollama_generate.request);
       }}};
  for (const auto& [name, read] : readers) {
    if (const std::string fault = read(); !fault.empty()) return fmt::format("{}: {}", name, fault);
  }
  return Dump(responses.echo).empty() ? "an echo that is nothing" : "";
}

// A request with something of all that the readers know.
inline const std::vector<std::string>& RequestSamples() {
  static const std::vector<std::string> samples = {
      R"({"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a"}]},
  {"role":"user","content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"x"}}]},
  {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[
    {"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":[1,{\"b\":2.5}]}"}},
    {"id":"2","type":"custom","custom":{"name":"g","input":"x"}}]},
  {"role":"tool","tool_call_id":"2","content":"d"},{"role":"tool","tool_call_id":"1","content":["e"]}],
  "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",
    "properties":{"a":{"$ref":"#/$defs/t"},"b":{"anyOf":[{"type":"null"},{"type":"integer"}]}},
    "$defs":{"t":{"type":"string"}}}}},{"type":"custom","custom":{"name":"g"}}],
  "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
  "stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"max_completion_tokens":6,
  "stop":["a","b"],"n":1,"logprobs":true,"top_logprobs":3,"reasoning_effort":"low","think":true,
  "chat_template_kwargs":{"enable_thinking":true},"response_format":{"type":"text"},
  "temperature":0.5,"top_p":0.9,"top_k":20,"min_p":0,"presence_penalty":1.5,"seed":7})",
      R"({"prompt":[1,2,3],"suffix":"s","max_tokens":5,"logprobs":2,"echo":false,"best_of":1,
  "stop":"x","stream":false})",
      R"({"prompt":"once","suffix":"end","system":"s","raw":false,"images":["x"],"format":"",
  "options":{"num_predict":5,"num_ctx":10,"stop":["x"],"temperature":1,"seed":-1},"keep_alive":"5m",
  "think":"high","logprobs":true,"top_logprobs":2})",
      R"({"instructions":"i","input":[{"type":"message","role":"developer","content":[
    {"type":"input_text","text":"a"},{"type":"input_image","image_url":"x"}]},
  {"role":"user","content":"b"},{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],
    "content":[{"type":"reasoning_text","text":"r"}],"encrypted_content":null},
  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"o"}]},
  {"type":"function_call","call_id":"1","name":"f","namespace":"n","arguments":"{}"},
  {"type":"custom_tool_call","call_id":"2","name":"g","input":"x"},
  {"type":"custom_tool_call_output","call_id":"2","output":"y"},
  {"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"z"}]}],
  "tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false},
  {"type":"custom","name":"g"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]},
  {"type":"web_search"}],"tool_choice":"required","reasoning":{"effort":"low","summary":"auto"},
  "text":{"format":{"type":"text"}},"metadata":{"a":"b"},"max_output_tokens":9,"store":false})",
      R"({"system":[{"type":"text","text":"x-anthropic-billing-header: a\nb"},{"type":"text","text":"c"}],
  "messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":
    {"type":"base64","data":"x"}},{"type":"document","source":{"type":"text","data":"d"}}]},
  {"role":"system","content":"late"},{"role":"assistant","content":[
    {"type":"thinking","thinking":"t","signature":""},{"type":"text","text":"b"},
    {"type":"tool_use","id":"1","name":"f","input":{"a":1}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true,
    "content":[{"type":"text","text":"e"}]},{"type":"text","text":"f"}]}],
  "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}},
  {"type":"web_search_20250305","name":"w"}],
  "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"max_tokens":10,
  "thinking":{"type":"enabled","budget_tokens":2000},"output_config":{"effort":"high"},
  "stop_sequences":["x"],"metadata":{"user_id":"{}"}})"};
  return samples;
}

}  // namespace slotstream::server
