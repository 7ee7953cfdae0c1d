// What each dialect's requests become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/anthropic_request.h"
#include "server/chat_messages.h"
#include "server/responses_request.h"
#include "server/sampling_fields.h"
#include "text/chat_template.h"

namespace slotstream::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string kOpen = "<|im_start|>assistant\n<think>\n\n</think>\n\n";

Json Parse(const char* json) { return ParseBody(json).value(); }

std::string Prompt(text::ChatRequest chat) {
  chat.any_order = true;
  const auto prompt = text::RenderChat(chat);
  return prompt ? prompt->text : "refused: " + prompt.error().message;
}

std::string ChatPrompt(const char* messages) {
  ChatDraft draft;
  const Json body = Parse(messages);
  const auto error = ReadChatMessages(body["messages"], draft);
  if (error) return "refused: " + error->message;
  return Prompt(FinishChat(std::move(draft)).chat);
}

std::string AnthropicPrompt(const char* body) {
  AnthropicCall call;
  const auto error = ReadAnthropicCall(Parse(body), call);
  return error ? "refused: " + error->message : Prompt(*call.request.chat);
}

std::string ResponsesPrompt(const char* body) {
  ResponsesCall call;
  const auto error = ReadResponsesCall(Parse(body), call);
  return error ? "refused: " + error->message : Prompt(*call.request.chat);
}

std::string Turn(const std::string& role, const std::string& text) {
  return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n";
}

const std::string kRomeThenCairo =
    "<|im_start|>user\n<tool_response>\nrome\n</tool_response>\n<tool_response>\ncairo\n"
    "</tool_response><|im_end|>\n";

TEST(Fields, TypesAndNulls) {
  const Json body =
      Parse(R"({"a": null, "b": 3.0, "c": 2.5, "d": "x", "e": ["x", 1], "f": 1e300, "g": -1e300})");
  Fields fields(body, "at.");
  EXPECT_EQ(fields.Get("a"), nullptr);
  EXPECT_EQ(fields.Integer("a"), std::nullopt);
  EXPECT_EQ(fields.Integer("b"), 3);
  EXPECT_EQ(fields.Integer("f"), INT64_MAX);
  EXPECT_EQ(fields.Integer("g"), INT64_MIN);
  EXPECT_EQ(fields.Strings("d"), std::vector<std::string>{"x"});
  EXPECT_FALSE(fields.error());
  EXPECT_EQ(fields.Integer("c"), std::nullopt);
  ASSERT_TRUE(fields.error());
  EXPECT_EQ(fields.error()->param, "at.c");
  fields.Strings("e");
  EXPECT_EQ(fields.error()->param, "at.c") << "the first one counts";
}

TEST(Fields, BodiesThatAreNone) {
  for (const std::string& body : {std::string(), std::string("[]"), std::string("{\"a\": \xff}"),
                                  std::string("{\"a\": \"\xff\"}"), std::string("{} x"),
                                  std::string(300, '['), "{\"a\":" + std::string(250, '[') + "1"}) {
    EXPECT_FALSE(ParseBody(body)) << body;
  }
  // What would cost far more than its bytes; a second object begins anew.
  std::string wide = "{\"a\": 0";
  for (int i = 0; i < 11'000; ++i) wide += ",\"" + std::to_string(i) + "\": 0";
  EXPECT_TRUE(ParseBody("{\"a\": [" + wide + "}, {\"b\": 0}]}"));
  EXPECT_FALSE(ParseBody("{\"a\": [" + wide + "}, " + wide + "}]}"));
  std::string flat = "{\"a\": [0";
  for (int i = 0; i < (1 << 19); ++i) flat += ",0";
  EXPECT_FALSE(ParseBody(flat + "]}"));
  // Brackets in texts are no nesting.
  EXPECT_TRUE(ParseBody("{\"a\": \"\\\"" + std::string(300, '[') + "\"}"));
}

TEST(Sampling, EveryNameAndItsMeaning) {
  const auto read = [](const char* json) {
    generate::SamplingParams params = generate::SamplingParams::Greedy();
    const Json body = Parse(json);
    Fields fields(body);
    ReadSampling(fields, params);
    EXPECT_FALSE(fields.error()) << fields.error()->message;
    return params;
  };
  const auto all = read(R"({"temperature": 0.5, "top_p": 0.25, "top_k": 3, "min_p": 0.125,
                            "presence_penalty": 1, "frequency_penalty": 2, "seed": 9,
                            "logit_bias": {"17": -100, "4": 2.5}})");
  EXPECT_EQ(all.temperature, 0.5f);
  EXPECT_EQ(all.top_p, 0.25f);
  EXPECT_EQ(all.top_k, 3);
  EXPECT_EQ(all.min_p, 0.125f);
  EXPECT_EQ(all.presence_penalty, 1);
  EXPECT_EQ(all.frequency_penalty, 2);
  EXPECT_EQ(all.seed, 9u);
  EXPECT_EQ(all.repeat_penalty, 1);
  EXPECT_EQ(all.logit_bias, (std::vector<generate::TokenBias>{{17, -100}, {4, 2.5f}}));
  const auto whole = read(R"({"repetition_penalty": 1.5})");
  EXPECT_EQ(whole.repeat_penalty, 1.5f);
  EXPECT_EQ(whole.repeat_last_n, -1);
  const auto last = read(R"({"repeat_penalty": 1.5})");
  EXPECT_EQ(last.repeat_penalty, 1.5f);
  EXPECT_EQ(last.repeat_last_n, 64);
  EXPECT_EQ(read(R"({"repeat_penalty": 1.5, "repeat_last_n": 5})").repeat_last_n, 5);
  EXPECT_EQ(read(R"({"seed": -1, "logit_bias": null})").seed, std::nullopt);
}

TEST(ChatMessages, RolesAndContents) {
  EXPECT_EQ(ChatPrompt(R"({"messages": [
              {"role": "developer", "content": [{"type": "text", "text": "a"}]},
              {"role": "user", "content": ["b", {"type": "input_text", "text": "c"}]},
              {"role": "assistant", "content": null, "reasoning_content": "r"},
              {"role": "system", "content": "late"}, {"role": "user", "content": "d"}]})"),
            Turn("system", "a") + Turn("user", "bc") +
                Turn("assistant", "<think>\nr\n</think>\n\n") + Turn("system", "late") +
                Turn("user", "d") + kOpen);
}

TEST(ChatMessages, AnswersInTheOrderOfTheirCalls) {
  const std::string prompt = ChatPrompt(R"({"messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "tool_calls": [
        {"id": "1", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": \"x\"}"}},
        {"id": "2", "function": {"name": "f", "arguments": {"b": 2}}}]},
      {"role": "tool", "tool_call_id": "2", "content": "cairo"},
      {"role": "tool", "tool_call_id": "1", "content": "rome"}]})");
  EXPECT_THAT(prompt, HasSubstr(kRomeThenCairo));
  EXPECT_THAT(prompt, HasSubstr("<parameter=b>\n1\n</parameter>\n<parameter=a>\nx\n</parameter>"));
}

TEST(ChatMessages, ArgumentsThatAreNone) {
  JsonBudget budget;
  EXPECT_EQ(ReadArguments(nullptr, budget), Json::object());
  const Json empty = " ", broken = "{\"a\": ", list = "[1]";
  EXPECT_EQ(ReadArguments(&empty, budget), Json::object());
  EXPECT_EQ(ReadArguments(&broken, budget)["arguments"], broken);
  EXPECT_EQ(ReadArguments(&list, budget)["arguments"], list);
  budget.values = 3;
  const Json costly = "{\"a\": [1, 2, 3, 4]}";
  EXPECT_EQ(ReadArguments(&costly, budget)["arguments"], costly);
}

TEST(ChatMessages, Refusals) {
  EXPECT_THAT(ChatPrompt(R"({"messages": [{"content": "x"}]})"), HasSubstr("messages[0].role"));
  EXPECT_THAT(ChatPrompt(R"({"messages": [{"role": "user", "content": 5}]})"),
              HasSubstr("messages[0]"));
  EXPECT_THAT(ChatPrompt(R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})"),
              HasSubstr("messages[0].tool_calls[0]"));
}

TEST(ToolChoice, BeginsTheReply) {
  const auto start = [](const char* choice) {
    ChatDraft draft;
    draft.thinking = true;
    draft.AddTool("f", "", nullptr);
    draft.AddTool("g", "", nullptr);
    const Json json = Json::parse(choice);
    if (const auto error = ReadToolChoice(json, draft)) return "refused: " + error->message;
    const FinishedChat finished = FinishChat(std::move(draft));
    const std::string thinking = *finished.chat.enable_thinking ? " thinking" : "";
    return finished.reply_start + (finished.chat.tools.empty() ? " no tools" : "") + thinking;
  };
  EXPECT_EQ(start(R"("auto")"), " thinking");
  EXPECT_EQ(start(R"("none")"), " no tools thinking");
  EXPECT_EQ(start(R"("required")"), "<tool_call>\n<function=");
  EXPECT_EQ(start(R"({"type": "function", "function": {"name": "g"}})"),
            "<tool_call>\n<function=g>\n");
  EXPECT_EQ(start(R"({"type": "function", "name": "g"})"), "<tool_call>\n<function=g>\n");
  EXPECT_THAT(start(R"({"type": "function", "name": "h"})"), HasSubstr("\"h\""));
  EXPECT_THAT(start(R"("sometimes")"), HasSubstr("tool_choice"));
}

TEST(AnthropicRequest, SystemAndBilling) {
  const std::string plain =
      AnthropicPrompt(R"({"system": "a\n\nb", "messages": [{"role": "user", "content": "q"}]})");
  EXPECT_EQ(plain, Turn("system", "a\n\nb") + Turn("user", "q") + kOpen);
  EXPECT_EQ(AnthropicPrompt(R"({"system": [
      {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.1c0;"},
      {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
      {"type": "text", "text": "b"}],
      "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]})"),
            plain);
  EXPECT_EQ(AnthropicPrompt(R"({"system": "x-anthropic-billing-header: y\na\n\nb",
                               "messages": [{"role": "user", "content": "q"}]})"),
            plain);
}

TEST(AnthropicRequest, Turns) {
  const std::string prompt = AnthropicPrompt(R"({"messages": [
      {"role": "user", "content": "q"}, {"role": "system", "content": "late"},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "r", "signature": ""},
        {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "t"},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1}},
        {"type": "tool_use", "id": "2", "name": "f", "input": {}}]},
      {"role": "user", "content": [{"type": "text", "text": "and"},
        {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "cairo"}]},
        {"type": "tool_result", "tool_use_id": "1", "content": "rome"},
        {"type": "text", "text": "then"}]}]})");
  EXPECT_THAT(prompt, HasSubstr(Turn("user", "q") + Turn("system", "late")));
  EXPECT_THAT(prompt, HasSubstr("<think>\nr\n</think>\n\nt\n\n<tool_call>"));
  EXPECT_THAT(prompt, EndsWith(kRomeThenCairo + Turn("user", "and\n\nthen") + kOpen));
  EXPECT_THAT(AnthropicPrompt(R"({"messages": [{"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "1", "is_error": true, "content": "no"}]}]})"),
              HasSubstr("<tool_response>\nError: no\n</tool_response>"));
}

TEST(AnthropicRequest, Thinking) {
  const auto effort = [](const char* fields) {
    AnthropicCall call;
    const std::string body =
        std::string(R"({"messages": [{"role": "user", "content": "q"}], )") + fields + "}";
    if (const auto error = ReadAnthropicCall(Parse(body.c_str()), call)) return error->message;
    return *call.request.chat->enable_thinking ? call.request.chat->reasoning_effort
                                               : std::string("off");
  };
  EXPECT_EQ(effort(R"("max_tokens": 5)"), "off");
  EXPECT_EQ(effort(R"("output_config": {"effort": "high"})"), "off");
  EXPECT_EQ(effort(R"("thinking": {"type": "disabled"})"), "off");
  EXPECT_EQ(effort(R"("thinking": {"type": "adaptive"})"), "xhigh");
  EXPECT_EQ(effort(R"("thinking": {"type": "adaptive"}, "output_config": {"effort": "low"})"),
            "low");
  EXPECT_EQ(effort(R"("thinking": {"type": "enabled", "budget_tokens": 1024})"), "low");
  EXPECT_EQ(effort(R"("thinking": {"type": "enabled", "budget_tokens": 8000})"), "medium");
  EXPECT_EQ(effort(R"("thinking": {"type": "enabled", "budget_tokens": 31999})"), "xhigh");
  EXPECT_THAT(effort(R"("thinking": {"type": "wild"})"), HasSubstr("thinking"));
  EXPECT_THAT(effort(R"("output_config": {"format": {"type": "json_schema"}})"),
              HasSubstr("output_config.format"));
}

TEST(AnthropicRequest, ToolsAndLimits) {
  AnthropicCall call;
  ASSERT_FALSE(ReadAnthropicCall(
      Parse(R"({"messages": [{"role": "user", "content": "q"}], "max_tokens": 128000,
      "tools": [{"name": "f", "input_schema": {"type": "object", "maximum": 9007199254740991}},
                {"type": "custom", "name": "g", "description": "d", "input_schema": {}},
                {"type": "web_search_20250305", "name": "web_search"}],
      "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
      "stop_sequences": ["x"], "context_management": {}, "unknown": 1})"),
      call));
  EXPECT_EQ(Dump(call.request.chat->tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
            R"("maximum":9007199254740991}}},{"type":"function","function":{"name":"g",)"
            R"("description":"d","parameters":{}}}])");
  EXPECT_TRUE(call.request.single_call);
  EXPECT_EQ(call.request.sampling.max_tokens, 128000);
  EXPECT_EQ(call.request.sampling.stop, std::vector<std::string>{"x"});
}

TEST(ResponsesRequest, ItemsBecomeTurns) {
  const std::string prompt = ResponsesPrompt(R"({"instructions": "i", "input": [
      {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
      {"role": "user", "content": "q"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}],
       "encrypted_content": null},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
      {"type": "function_call", "call_id": "1", "name": "f", "namespace": "n", "arguments": "{}"},
      {"type": "custom_tool_call", "call_id": "2", "name": "p", "input": "free"},
      {"type": "custom_tool_call_output", "call_id": "2", "output": "cairo"},
      {"type": "function_call_output", "call_id": "1",
       "output": [{"type": "input_text", "text": "rome"}]},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
      {"type": "message", "role": "assistant", "content": "u"}, {"type": "strange"}]})");
  EXPECT_EQ(prompt,
            Turn("system", "i") + Turn("system", "d") + Turn("user", "q") +
                Turn("assistant",
                     "<think>\nr\n</think>\n\nt\n\n<tool_call>\n<function=n.f>\n</function>\n"
                     "</tool_call>\n<tool_call>\n<function=p>\n<parameter=input>\nfree\n"
                     "</parameter>\n</function>\n</tool_call>") +
                kRomeThenCairo + Turn("assistant", "<think>\ns\n</think>\n\nu") + kOpen);
}

TEST(ResponsesRequest, Tools) {
  ResponsesCall call;
  ASSERT_FALSE(ReadResponsesCall(Parse(R"({"input": "q", "tools": [
      {"type": "function", "name": "f", "strict": false, "parameters": {}},
      {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
      {"type": "custom", "name": "p", "format": {"type": "grammar"}}, {"type": "web_search"}]})"),
                                 call));
  EXPECT_EQ(call.tools.size(), 3u);
  EXPECT_EQ(call.tools["n.f"].name, "f");
  EXPECT_EQ(call.tools["n.f"].name_space, "n");
  EXPECT_TRUE(call.tools["p"].custom);
  EXPECT_EQ(call.request.chat->tools.size(), 3u);
}

TEST(ResponsesRequest, EmptyAndRefused) {
  for (const char* body : {R"({"input": ""})", R"({"input": []})", R"({})"}) {
    ResponsesCall call;
    EXPECT_FALSE(ReadResponsesCall(Parse(body), call)) << body;
    EXPECT_TRUE(call.empty);
  }
  for (const char* body :
       {R"({"input": "q", "previous_response_id": "x"})", R"({"input": "q", "background": true})",
        R"({"input": "q", "text": {"format": {"type": "json_object"}}})", R"({"input": 5})",
        R"({"input": [5]})", R"({"input": [{"role": "wizard"}]})",
        R"({"input": [{"type": "function_call"}]})", R"({"input": "q", "max_output_tokens": 0})",
        R"({"input": "q", "reasoning": {"effort": "wild"}})"}) {
    EXPECT_THAT(ResponsesPrompt(body), HasSubstr("refused")) << body;
  }
}

}  // namespace
}  // namespace slotstream::server
