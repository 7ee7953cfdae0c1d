// What each dialect's writers make of a reply's events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/anthropic_reply.h"
#include "server/call_spacing.h"
#include "server/ollama_reply.h"
#include "server/openai_reply.h"
#include "server/plain_reply.h"
#include "server/responses_reply.h"

namespace slotstream::server {
namespace {

using generate::FinishReason;
using generate::ReplyEvent;
using Kind = ReplyEvent::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ReplyEvent Text(const std::string& text) { return {.kind = Kind::kText, .text = text}; }
ReplyEvent Think(const std::string& text) { return {.kind = Kind::kReasoning, .text = text}; }
ReplyEvent Begin(const std::string& id, const std::string& name) {
  return {.kind = Kind::kCallBegin, .id = id, .name = name};
}
ReplyEvent Arguments(const std::string& text) {
  return {.kind = Kind::kCallArguments, .text = text};
}
ReplyEvent End() { return {.kind = Kind::kCallEnd}; }
ReplyEvent Malformed(const std::string& text) {
  return {.kind = Kind::kCallMalformed, .text = text};
}

const std::vector<ReplyEvent> kReply = {Think("hm"),
                                        Text("a"),
                                        Text("b"),
                                        Begin("call_1", "f"),
                                        Arguments("{\"x\":"),
                                        Arguments("\"y\"}"),
                                        End(),
                                        Begin("call_2", "g"),
                                        Arguments("{}"),
                                        End()};

generate::GenerationResult Result(FinishReason reason) {
  generate::GenerationResult result;
  result.reason = reason;
  result.stop_string = "STOP";
  result.prompt_tokens = 7;
  result.output = {1, 2, 3};
  return result;
}

// A stream without head and chunks.
struct Sink {
  std::shared_ptr<ResponseStream> stream = std::make_shared<ResponseStream>(
      ResponseStream::Framing{.chunked = false, .keep_alive = false, .headers = {}});
  std::string Body() {
    std::string out;
    stream->Take(out);
    const size_t head = out.find("\r\n\r\n");
    return head == std::string::npos ? out : out.substr(head + 4);
  }
};

void Play(ReplyWriter& writer, const std::vector<ReplyEvent>& events, FinishReason reason) {
  writer.Begin({7});
  for (const ReplyEvent& event : events) writer.Event(event);
  writer.End(Result(reason));
}

std::vector<Json> Events(const std::string& body) {
  std::vector<Json> events;
  for (size_t at = body.find("data: "); at != std::string::npos; at = body.find("data: ", at + 1)) {
    const std::string line = body.substr(at + 6, body.find('\n', at) - at - 6);
    events.push_back(line == "[DONE]" ? Json("[DONE]") : Json::parse(line));
  }
  return events;
}

std::vector<std::string> Types(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events) types.push_back(event["type"].get<std::string>());
  return types;
}

TEST(CallSpacing, DropsWhatBelongsToTheNotation) {
  const auto run = [](const std::vector<ReplyEvent>& events) {
    CallSpacing spacing;
    std::string seen;
    const auto sink = [&seen](const ReplyEvent& event) {
      seen += event.kind == Kind::kText        ? "[" + event.text + "]"
              : event.kind == Kind::kCallBegin ? "<"
              : event.kind == Kind::kCallEnd   ? ">"
                                               : "(" + event.text + ")";
    };
    for (const ReplyEvent& event : events) spacing.Push(event, sink);
    spacing.Flush(sink);
    return seen;
  };
  EXPECT_EQ(run({Text("a "), Text(" b\n\n"), Begin("", ""), End(), Text("\n"), Begin("", ""), End(),
                 Text("\n")}),
            "[a][  b]<><>");
  EXPECT_EQ(run({Text("a\n"), Text("\n")}), "[a][\n\n]");
  EXPECT_EQ(run({Text("\n"), Begin("", ""), End(), Text("\nb\n")}), "<>[\nb][\n]");
  EXPECT_EQ(run({Text("a \n"), Malformed("<tool_call>")}), "[a][ \n](<tool_call>)");
}

TEST(OpenAiChatStream, Deltas) {
  Sink sink;
  OpenAiChatStream writer(sink.stream, {.identity = {"id", "model", 5}, .include_usage = true});
  Play(writer, kReply, FinishReason::kStopToken);
  const std::vector<Json> events = Events(sink.Body());
  std::string content, reasoning, first, second;
  for (const Json& event : events) {
    if (!event.is_object() || event["choices"].empty()) continue;
    const Json& delta = event["choices"][0]["delta"];
    content += delta.value("content", "");
    reasoning += delta.value("reasoning_content", "");
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    (call["index"] == 0 ? first : second) += call["function"].value("arguments", "");
  }
  EXPECT_EQ(content, "ab");
  EXPECT_EQ(reasoning, "hm");
  EXPECT_EQ(first, R"({"x":"y"})");
  EXPECT_EQ(second, "{}");
  EXPECT_EQ(events[events.size() - 3]["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(events[events.size() - 2]["usage"]["total_tokens"], 10);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(OpenAiChatStream, BrokenCalls) {
  Sink sink;
  OpenAiChatStream writer(sink.stream, {});
  Play(writer,
       {Malformed("<tool_call>x"), Begin("1", "f"), Arguments("{"), Malformed("<tool_call>y")},
       FinishReason::kLength);
  const std::string body = sink.Body();
  EXPECT_THAT(body, HasSubstr(R"("content":"<tool_call>x")"));
  EXPECT_EQ(body.find("<tool_call>y"), std::string::npos);
  EXPECT_THAT(body, HasSubstr(R"("finish_reason":"length")"));
}

TEST(OpenAiChatStream, Failures) {
  Sink before, after;
  OpenAiChatStream early(before.stream, {});
  early.Fail(ContextTooLong(9, 5));
  EXPECT_EQ(before.stream->status(), 400);
  EXPECT_THAT(before.Body(), HasSubstr("context_length_exceeded"));
  OpenAiChatStream late(after.stream, {});
  late.Begin({7});
  late.Fail({.message = "disk"});
  const std::vector<Json> events = Events(after.Body());
  EXPECT_EQ(events.back()["error"]["message"], "disk");
  EXPECT_TRUE(after.stream->ended());
}

TEST(AnthropicStream, Blocks) {
  Sink sink;
  AnthropicStream writer(sink.stream, {"id", "model", true});
  Play(writer, kReply, FinishReason::kStopToken);
  const std::vector<Json> events = Events(sink.Body());
  EXPECT_THAT(Types(events),
              ElementsAre("message_start", "ping", "content_block_start", "content_block_delta",
                          "content_block_delta", "content_block_stop", "content_block_start",
                          "content_block_delta", "content_block_delta", "content_block_stop",
                          "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_stop", "content_block_start", "content_block_delta",
                          "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], 7);
  EXPECT_EQ(events[4]["delta"]["type"], "signature_delta");
  EXPECT_EQ(events[10]["content_block"]["id"], "toolu_1");
  EXPECT_EQ(events[14]["index"], 3);
  EXPECT_EQ(events[17]["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(events[17]["usage"]["output_tokens"], 3);
}

TEST(AnthropicStream, KeepAlivesOpenTheBlockThatComes) {
  Sink thinking, text, tool;
  AnthropicStream first(thinking.stream, {"id", "model", true});
  first.Begin({7});
  first.KeepAlive();
  first.KeepAlive();
  first.Event(Think("hm"));
  first.End(Result(FinishReason::kStopToken));
  EXPECT_THAT(Types(Events(thinking.Body())),
              ElementsAre("message_start", "ping", "content_block_start", "content_block_delta",
                          "content_block_delta", "content_block_delta", "content_block_delta",
                          "content_block_stop", "message_delta", "message_stop"));
  AnthropicStream second(text.stream, {"id", "model", false});
  second.Begin({7});
  second.KeepAlive();
  second.Event(Text("a"));
  second.End(Result(FinishReason::kStopString));
  const std::vector<Json> events = Events(text.Body());
  EXPECT_EQ(events[3]["delta"], Json({{"type", "text_delta"}, {"text", ""}}));
  EXPECT_EQ(events[4]["delta"]["text"], "a");
  EXPECT_EQ(events[6]["delta"]["stop_sequence"], "STOP");
  AnthropicStream third(tool.stream, {"id", "model", false});
  third.Begin({7});
  third.Event(Begin("call_1", "f"));
  third.KeepAlive();
  EXPECT_EQ(Events(tool.Body()).back()["delta"]["partial_json"], "");
}

TEST(AnthropicAnswer, Whole) {
  CollectedReply reply;
  for (const ReplyEvent& event : kReply) reply.Add(event);
  const Json answer = AnthropicAnswer({"id", "model", true}, reply, Result(FinishReason::kContext));
  EXPECT_EQ(answer["stop_reason"], "model_context_window_exceeded");
  ASSERT_EQ(answer["content"].size(), 4u);
  EXPECT_EQ(answer["content"][2]["input"], Json({{"x", "y"}}));
}

TEST(OllamaStream, Lines) {
  Sink sink;
  OllamaStream writer(sink.stream, {.model = "m"});
  Play(writer, kReply, FinishReason::kLength);
  std::vector<Json> lines;
  const std::string body = sink.Body();
  for (size_t at = 0; at < body.size(); at = body.find('\n', at) + 1) {
    lines.push_back(Json::parse(body.substr(at, body.find('\n', at) - at)));
  }
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0]["message"]["thinking"], "hm");
  EXPECT_EQ(lines[3]["message"]["tool_calls"][0]["function"]["arguments"], Json({{"x", "y"}}));
  EXPECT_EQ(lines[4]["message"]["tool_calls"][0]["function"]["index"], 1);
  EXPECT_EQ(lines[5]["done_reason"], "length");
  EXPECT_EQ(lines[5]["eval_count"], 3);
}

TEST(ResponsesStream, ItemsInOrder) {
  Sink sink;
  IdSource ids;
  ResponsesIdentity identity{"resp_1",
                             "model",
                             5,
                             Json::object(),
                             {{"g", {"g", "", true}}, {"f", {"f0", "space", false}}}};
  ResponsesStream writer(sink.stream, std::move(identity), ids);
  Play(writer, kReply, FinishReason::kStopToken);
  const std::vector<Json> events = Events(sink.Body());
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.reasoning_text.delta",
                  "response.reasoning_text.done", "response.content_part.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.delta", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done",
                  "response.output_item.added", "response.function_call_arguments.delta",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
                  "response.output_item.done", "response.completed"));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  const Json& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 4u);
  EXPECT_EQ(output[1]["content"][0]["text"], "ab");
  EXPECT_EQ(output[2]["name"], "f0");
  EXPECT_EQ(output[2]["namespace"], "space");
  EXPECT_EQ(output[3]["type"], "custom_tool_call");
}

TEST(ResponsesStream, RanOut) {
  Sink text, half, whole;
  IdSource ids;
  ResponsesStream first(text.stream, {}, ids);
  Play(first, {Text("a")}, FinishReason::kLength);
  Json last = Events(text.Body()).back();
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
  // Half a call must not be run.
  ResponsesStream second(half.stream, {}, ids);
  Play(second, {Begin("1", "f"), Arguments("{"), Malformed("x")}, FinishReason::kLength);
  const std::vector<Json> events = Events(half.Body());
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_EQ(events[events.size() - 2]["type"], "response.function_call_arguments.delta");
  ResponsesStream third(whole.stream, {}, ids);
  Play(third, {Begin("1", "f"), Arguments("{}"), End()}, FinishReason::kLength);
  EXPECT_EQ(Events(whole.Body()).back()["type"], "response.completed");
}

TEST(PlainReply, WhiteSpaceWhileItWaits) {
  const auto format = [](const CollectedReply& reply, const generate::GenerationResult&) {
    return "{\"text\":\"" + reply.text + "\"}";
  };
  Sink quick, slow, failed;
  PlainReply first(quick.stream, ErrorForm::kOpenAi, format);
  Play(first, {Text("a")}, FinishReason::kStopToken);
  EXPECT_EQ(quick.Body(), "{\"text\":\"a\"}");
  PlainReply second(slow.stream, ErrorForm::kOpenAi, format);
  second.Begin({7});
  second.KeepAlive();
  second.KeepAlive();
  second.Event(Text("a"));
  second.End(Result(FinishReason::kStopToken));
  EXPECT_EQ(slow.Body(), "  {\"text\":\"a\"}");
  PlainReply third(failed.stream, ErrorForm::kAnthropic, format);
  third.Begin({7});
  third.Fail({.kind = ApiError::Kind::kOverloaded, .message = "full"});
  EXPECT_EQ(failed.stream->status(), 503);
}

}  // namespace
}  // namespace slotstream::server
