#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace slotstream::text {
namespace {

using ::testing::HasSubstr;

// The request of a JSON object: messages, tools, think, effort, preserve, vision.
ChatRequest Request(const std::string& json) {
  const OrderedJson j = OrderedJson::parse(json);
  ChatRequest request;
  auto messages = ParseMessages(j["messages"]);
  EXPECT_TRUE(messages) << messages.error().message;
  if (messages) request.messages = std::move(*messages);
  if (j.contains("tools")) request.tools = j["tools"];
  if (j.contains("think")) request.enable_thinking = j["think"].get<bool>();
  if (j.contains("preserve")) request.preserve_thinking = j["preserve"].get<bool>();
  request.reasoning_effort = j.value("effort", "medium");
  request.add_vision_id = j.value("vision", false);
  return request;
}

std::string Render(const std::string& json) {
  const auto prompt = RenderChat(Request(json));
  return prompt ? prompt->text : "error: " + prompt.error().message;
}

constexpr const char* kHi = R"("messages": [{"role": "user", "content": "Hi"}])";
const std::string kOpen = "<|im_start|>assistant\n<think>\n";

TEST(ChatTemplate, EffortAndSystem) {
  EXPECT_EQ(Render("{" + std::string(kHi) + R"(, "effort": "xhigh"})"),
            "<|im_start|>system\nReasoning effort is set to xhigh. Please think carefully through "
            "the task, validate key assumptions, consider plausible alternatives, and prioritize "
            "correctness, consistency, and clarity in the final answer.<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n" +
                kOpen);
  EXPECT_EQ(Render("{" + std::string(kHi) + "}"), "<|im_start|>user\nHi<|im_end|>\n" + kOpen);
  EXPECT_EQ(Render(R"({"think": false, "messages": [{"role": "system", "content": " Be brief. "},
                       {"role": "user", "content": "Hi"}]})"),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n" + kOpen +
                "\n</think>\n\n");
  EXPECT_EQ(Render(R"({"effort": "low", "messages": [{"role": "system", "content": "Be brief."},
                       {"role": "user", "content": "Hi"}]})"),
            "<|im_start|>system\nReasoning effort is set to low. Keep your thinking brief and "
            "focused, moving directly to the conclusion without unnecessary elaboration.\n\n"
            "Be brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n" +
                kOpen);
  ChatRequest request = Request("{" + std::string(kHi) + "}");
  request.add_generation_prompt = false;
  EXPECT_EQ(RenderChat(request)->text, "<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplate, EarlierReasoningIsKeptUnlessAskedNotTo) {
  const std::string messages = R"("messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "Hello", "reasoning_content": " greet\n"},
      {"role": "user", "content": "Bye"}])";
  const std::string head = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  const std::string tail = "Hello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n" + kOpen;
  EXPECT_EQ(Render("{" + messages + "}"), head + "<think>\ngreet\n</think>\n\n" + tail);
  EXPECT_EQ(Render("{\"preserve\": false, " + messages + "}"), head + tail);
}

TEST(ChatTemplate, ReasoningAfterTheLastQueryIsAlwaysKept) {
  // A user message that is only a tool's answer is no query.
  EXPECT_EQ(Render(R"({"preserve": false, "messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": "A", "reasoning_content": "r"},
      {"role": "user", "content": " <tool_response>x</tool_response>\n"}]})"),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nr\n</think>\n\nA"
            "<|im_end|>\n<|im_start|>user\n<tool_response>x</tool_response><|im_end|>\n" +
                kOpen);
}

TEST(ChatTemplate, Tools) {
  const std::string prompt = Render(R"({"tools": [{"type": "function", "function":
      {"name": "get_weather", "description": "Weather", "parameters": {"type": "object",
       "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
      "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]})");
  EXPECT_EQ(
      prompt,
      "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n"
      "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": "
      "\"Weather\", \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": "
      "{\"type\": \"string\"}}, \"required\": [\"city\"]}}}\n</tools>\n\nIf you choose to call a "
      "function ONLY reply in the following format with NO suffix:\n\n<tool_call>\n"
      "<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
      "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can "
      "span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
      "- Function calls MUST follow the specified format: an inner <function=...></function> "
      "block must be nested within <tool_call></tool_call> XML tags\n- Required parameters MUST "
      "be specified\n- You may provide optional reasoning for your function call in natural "
      "language BEFORE the function call, but NOT after\n- If there is no function call "
      "available, answer the question like normal with your current knowledge and do not tell "
      "the user about function calls\n</IMPORTANT>\n\nBe brief.<|im_end|>\n<|im_start|>user\n"
      "Weather?<|im_end|>\n" +
          kOpen);
}

TEST(ChatTemplate, CallsAndAnswers) {
  EXPECT_EQ(
      Render(R"({"messages": [{"role": "user", "content": "Weather?"},
      {"role": "assistant", "content": null, "reasoning_content": "call", "tool_calls": [
        {"function": {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3, "opts": {"a": true, "b": null}}}},
        {"name": "now", "arguments": ""}]},
      {"role": "tool", "content": "rain"}, {"role": "tool", "content": " noon "}]})"),
      "<|im_start|>user\nWeather?<|im_end|>\n<|im_start|>assistant\n<think>\ncall\n</think>\n\n"
      "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
      "<parameter=days>\n3\n</parameter>\n<parameter=opts>\n{\"a\": true, \"b\": null}\n"
      "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n"
      "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response>\n"
      "<tool_response>\nnoon\n</tool_response><|im_end|>\n" +
          kOpen);
  EXPECT_THAT(Render(R"({"messages": [{"role": "user", "content": "x"},
      {"role": "assistant", "content": "Sure.", "tool_calls": [{"name": "f"}]}]})"),
              HasSubstr("</think>\n\nSure.\n\n<tool_call>\n<function=f>\n</function>"));
}

TEST(ChatTemplate, PicturesAndVideos) {
  EXPECT_EQ(
      Render(R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}},
      {"type": "text", "text": "What? "}]}]})"),
      "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What?<|im_end|>\n" + kOpen);
  EXPECT_EQ(
      Render(R"({"vision": true, "messages": [{"role": "user", "content": [{"text": "Compare "},
      {"type": "image"}, {"image": "x"}, {"type": "video"}]}, {"role": "assistant", "content": "ok"},
      {"role": "user", "content": [{"image": "y"}]}]})"),
      "<|im_start|>user\nCompare Picture 1: <|vision_start|><|image_pad|><|vision_end|>"
      "Picture 2: <|vision_start|><|image_pad|><|vision_end|>Video 1: <|vision_start|>"
      "<|video_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nok"
      "<|im_end|>\n<|im_start|>user\nPicture 3: <|vision_start|><|image_pad|><|vision_end|>"
      "<|im_end|>\n" +
          kOpen);
}

TEST(ChatTemplate, TrimsAsPython) {
  EXPECT_EQ(
      Render(
          R"({"messages": [{"role": "user", "content": "\u001c\u00a0\u2003\u3000x\u200b \u0085\n"}]})"),
      "<|im_start|>user\nx\u200b<|im_end|>\n" + kOpen);
}

TEST(ChatTemplate, Refusals) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": []})", "no messages"},
      {R"({"messages": [{"role": "system", "content": "x"}]})", "no user message"},
      {R"({"messages": [{"role": "user", "content": "<tool_response>x</tool_response>"}]})",
       "no user message"},
      {R"({"messages": [{"role": "tool", "content": "x"}, {"role": "user", "content": "x"}]})",
       "messages[0]"},
      {R"({"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "x"}]})",
       "messages[1]"},
      {R"({"messages": [{"role": "system", "content": [{"image": ""}]}, {"role": "user", "content": "x"}]})",
       "pictures"},
      {R"({"effort": "high", "messages": [{"role": "user", "content": "x"}]})", "reasoning_effort"},
      {R"({"effort": "", "think": true, "messages": [{"role": "user", "content": "x"}]})",
       "reasoning_effort"},
      {R"({"tools": {}, "messages": [{"role": "user", "content": "x"}]})", "tools"},
  };
  for (const auto& [json, message] : cases) {
    const auto prompt = RenderChat(Request(json));
    ASSERT_FALSE(prompt) << json;
    EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(prompt.error().message, HasSubstr(message));
  }
  // With thinking off the effort isn't even looked at; empty tools are none.
  EXPECT_EQ(
      Render(
          R"({"effort": "high", "think": false, "tools": [], "messages": [{"role": "user", "content": "x"}]})"),
      "<|im_start|>user\nx<|im_end|>\n" + kOpen + "\n</think>\n\n");
}

// What the template refuses and agents send.
TEST(ChatTemplate, AnyOrder) {
  const auto render = [](const char* json) {
    ChatRequest request = Request(json);
    request.any_order = true;
    const auto prompt = RenderChat(request);
    return prompt ? prompt->text : prompt.error().message;
  };
  EXPECT_EQ(
      render(
          R"({"think": false, "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "q"},
              {"role": "system", "content": [{"text": " b "}, {"image": ""}]}, {"role": "system", "content": "c"}]})"),
      "<|im_start|>system\na<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>system\nb<|im_"
      "end|>\n<|im_start|>system\nc<|im_end|>\n" +
          kOpen + "\n</think>\n\n");
  EXPECT_EQ(
      render(
          R"({"think": false, "messages": [{"role": "tool", "content": "x"}, {"role": "assistant", "content": "y"}]})"),
      "<|im_start|>user\n<tool_response>\nx\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
      "<think>\n\n</think>\n\ny<|im_end|>\n" +
          kOpen + "\n</think>\n\n");
  EXPECT_EQ(render(R"({"messages": []})"), "there are no messages");
}

TEST(ChatTemplate, MessagesThatDoNotParse) {
  for (const char* json :
       {R"({})", R"([5])", R"([{}])", R"([{"role": "developer"}])", R"([{"role": 1}])",
        R"([{"role": "user", "content": 5}])", R"([{"role": "user", "content": {}}])",
        R"([{"role": "user", "content": ["x"]}])",
        R"([{"role": "user", "content": [{"type": "text"}]}])",
        R"([{"role": "user", "content": [{"text": 5}]}])", R"([{"role": "user", "tool_calls": 1}])",
        R"([{"role": "assistant", "tool_calls": [5]}])",
        R"([{"role": "assistant", "tool_calls": [{}]}])",
        R"([{"role": "assistant", "tool_calls": [{"function": 1, "name": "f"}]}])",
        R"([{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{}"}]}])",
        R"([{"role": "assistant", "tool_calls": [{"name": "f", "arguments": [1]}]}])"}) {
    const auto messages = ParseMessages(OrderedJson::parse(json));
    ASSERT_FALSE(messages) << json;
    EXPECT_EQ(messages.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ChatTemplate, MarksTheRequestsOwnBytes) {
  const auto prompt = RenderChat(Request(R"({"tools": [{"n": 1}], "messages": [
      {"role": "system", "content": " S "}, {"role": "user", "content": [{"text": " <|im_end|>"},
      {"image": ""}, {"text": "b "}, {"text": " "}]},
      {"role": "assistant", "content": "", "reasoning_content": " r ", "tool_calls":
        [{"name": "f", "arguments": {"k": "v", "n": [1]}}]},
      {"role": "tool", "content": "t"}]})"));
  ASSERT_TRUE(prompt);
  std::vector<std::string> own;
  size_t before = 0;
  for (const TextRange& range : prompt->content) {
    EXPECT_GE(range.begin, before);
    before = range.end;
    own.push_back(prompt->text.substr(range.begin, range.end - range.begin));
  }
  EXPECT_THAT(own, ::testing::ElementsAre("{\"n\": 1}", "S", "<|im_end|>", "b", "r", "f", "k", "v",
                                          "n", "[1]", "t"));
}

// Thirty conversations rendered by the reference implementation.
TEST(ChatTemplate, MiniatureGoldens) {
  std::ifstream file(SLOTSTREAM_SOURCE_DIR "/tests/goldens/miniature_greedy.json");
  const OrderedJson cases = OrderedJson::parse(file);
  ASSERT_FALSE(cases.empty());
  for (const OrderedJson& c : cases) {
    OrderedJson messages = OrderedJson::array();
    if (c["system"].is_string()) {
      messages.push_back({{"role", "system"}, {"content", c["system"]}});
    }
    for (OrderedJson message : c["messages"]) {
      if (message.contains("thought")) message["reasoning_content"] = message["thought"];
      messages.push_back(message);
    }
    ChatRequest request;
    auto parsed = ParseMessages(messages);
    ASSERT_TRUE(parsed) << parsed.error().message;
    request.messages = std::move(*parsed);
    request.tools = c["tools"];
    request.enable_thinking = c["think"].get<bool>();
    request.reasoning_effort = c["reasoning_effort"].get<std::string>();
    const auto prompt = RenderChat(request);
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->text, c["prompt"].get<std::string>());
  }
}

}  // namespace
}  // namespace slotstream::text
