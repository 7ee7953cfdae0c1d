#include "text/tool_call_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace slotstream::text {
namespace {

using Kind = ToolCallEvent::Kind;

ToolSchemas Schemas() {
  return ToolSchemas::FromTools(OrderedJson::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object",
      "$defs": {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
      "properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},
        "b": {"type": "boolean"}, "a": {"type": "array"}, "o": {"type": "object"},
        "ns": {"type": ["null", "string"]}, "u": {"type": ["string", "integer"]},
        "any": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "two": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "ref": {"$ref": "#/$defs/count"}, "loop": {"$ref": "#/$defs/loop"},
        "bad": {"$ref": "%%"}, "far": {"$ref": "http://x"}, "none": {}, "odd": 5}}}},
    {"name": "bare"}, {"function": 7}, 3, {"name": 5}])"));
}

std::string Call(const std::string& function,
                 const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string text = "<tool_call>\n<function=" + function + ">\n";
  for (const auto& [name, value] : parameters) {
    text += "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
  }
  return text + "</function>\n</tool_call>";
}

std::string Arguments(const std::string& name, const std::string& value) {
  const ToolSchemas schemas = Schemas();
  const ParsedReply reply = ParseToolCalls(Call("f", {{name, value}}), schemas, 0);
  EXPECT_EQ(reply.calls.size(), 1u);
  return reply.calls.empty() ? "" : reply.calls[0].arguments;
}

TEST(ToolSchemas, ResolvesTypes) {
  const ToolSchemas schemas = Schemas();
  const std::pair<const char*, ParameterType> cases[] = {
      {"s", ParameterType::kString},       {"ns", ParameterType::kString},
      {"any", ParameterType::kString},     {"u", ParameterType::kUnknown},
      {"two", ParameterType::kUnknown},    {"ref", ParameterType::kInteger},
      {"loop", ParameterType::kUnknown},   {"bad", ParameterType::kUnknown},
      {"far", ParameterType::kUnknown},    {"none", ParameterType::kUnknown},
      {"odd", ParameterType::kUnknown},    {"o", ParameterType::kObject},
      {"missing", ParameterType::kUnknown}};
  for (const auto& [name, type] : cases) EXPECT_EQ(schemas.TypeOf("f", name), type) << name;
  EXPECT_TRUE(schemas.Declares("f") && schemas.Declares("bare"));
  EXPECT_FALSE(schemas.Declares("g") || schemas.Declares(""));
}

TEST(ToolCallParser, CoercesByType) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"s", "12", R"({"s":"12"})"},
      {"s", "a\"b\\\nc\td\x01é", R"({"s":"a\"b\\\nc\td\u0001é"})"},
      {"i", "12", R"({"i":12})"},
      {"i", "3.0", R"({"i":3})"},
      {"i", "3.5", R"({"i":3.5})"},
      {"i", "three", R"({"i":"three"})"},
      {"i", "-9223372036854775808", R"({"i":-9223372036854775808})"},
      {"n", "1e3", R"({"n":1000})"},
      {"n", "2.50", R"({"n":2.5})"},
      {"n", "1e400", R"({"n":"1e400"})"},
      {"n", "nan", R"({"n":"nan"})"},
      {"b", "true", R"({"b":true})"},
      {"b", "yes", R"({"b":"yes"})"},
      {"a", "[1, 2.0, {\"x\": null}]", R"({"a":[1,2,{"x":null}]})"},
      {"a", "[1,", R"({"a":"[1,"})"},
      {"o", "{\"b\": 1, \"a\": 2}", R"({"o":{"b":1,"a":2}})"},
      {"none", "{\"x\": 1}", R"({"none":{"x":1}})"},
      {"none", "false", R"({"none":false})"},
      {"none", "007", R"({"none":7})"},
      {"none", "1.5", R"({"none":"1.5"})"},
      {"none", "null", R"({"none":"null"})"},
      {"none", "{x", R"({"none":"{x"})"},
      {"none", "", R"({"none":""})"},
  };
  for (const auto& [name, value, expected] : cases) EXPECT_EQ(Arguments(name, value), expected);
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_EQ(Arguments("a", deep), "{\"a\":\"" + deep + "\"}");
}

TEST(ToolCallParser, StripsOneLineBreakAtEachEnd) {
  EXPECT_EQ(Arguments("s", "\n\nx\n"), R"({"s":"\n\nx\n"})");
  const ToolSchemas schemas = Schemas();
  auto arguments = [&](const std::string& body) {
    return ParseToolCalls("<tool_call><function=f><parameter=s>" + body +
                              "</parameter></function></tool_call>",
                          schemas, 0)
        .calls[0]
        .arguments;
  };
  EXPECT_EQ(arguments("x"), R"({"s":"x"})");
  EXPECT_EQ(arguments("\n"), R"({"s":""})");
  EXPECT_EQ(arguments("\n\n"), R"({"s":""})");
  EXPECT_EQ(arguments("</parameter <tool_call> </function>"),
            R"({"s":"</parameter <tool_call> </function>"})");
}

// Each event in a line of text, neighbouring text and arguments joined.
std::string Trace(const std::vector<ToolCallEvent>& events) {
  std::string trace;
  Kind last = Kind::kEnd;
  for (const ToolCallEvent& e : events) {
    switch (e.kind) {
      case Kind::kText:
        trace += last == e.kind ? e.text : "T:" + e.text;
        break;
      case Kind::kBegin:
        trace += "B:" + e.id + ":" + e.name + (e.declared ? "" : "?");
        break;
      case Kind::kArguments:
        trace += last == e.kind ? e.text : "A:" + e.text;
        break;
      case Kind::kEnd:
        trace += "E";
        break;
      case Kind::kMalformed:
        trace += "M:" + e.text;
        break;
    }
    last = e.kind;
  }
  return trace;
}

TEST(ToolCallParser, EventsDoNotDependOnTheCuts) {
  const ToolSchemas schemas = Schemas();
  const std::string duplicate = Call("f", {{"s", "1"}, {"s", "2"}});
  const std::pair<std::string, std::string> cases[] = {
      {"no call < here <tool", "T:no call < here <tool"},
      {"a\n" + Call("f", {{"s", "x"}, {"i", "2"}}) + "\nb" + Call("g", {{"p", "1"}}) + "c",
       "T:a\nB:call_0000000f:fA:{\"s\":\"x\",\"i\":2}ET:\nbB:call_00000010:g?A:{\"p\":1}ET:c"},
      {"<tool_call>\n</tool_call>x", "T:x"},
      {"<tool_call> junk <function=f></tool_call>", "B:call_0000000f:fA:{}E"},
      {"<tool_call><function=f><parameter=s>1</parameter></tool_call>",
       "B:call_0000000f:fA:{\"s\":\"1\"}E"},
      {"x<tool_call>\n<function=f>\n<parameter=s>\nab",
       "T:xB:call_0000000f:fA:{\"s\":\"abM:<tool_call>\n<function=f>\n<parameter=s>\nab"},
      {"<tool_call><function=f></function>", "B:call_0000000f:fA:M:"},
      {duplicate + "y", "B:call_0000000f:fA:{\"s\":\"1\"M:" + duplicate + "T:y"},
      {"<tool_call><function=\nf></function></tool_call>z",
       "M:<tool_call><function=\nf></function></tool_call>T:z"},
      {"<tool_call><function=" + std::string(300, 'n') + "></tool_call>",
       "M:<tool_call><function=" + std::string(300, 'n') + "></tool_call>"},
      {"<tool_call><function=f><parameter=></parameter></function></tool_call>",
       "B:call_0000000f:fM:<tool_call><function=f><parameter=></parameter></function></tool_call>"},
  };
  std::mt19937 rng(2);
  for (auto [text, expected] : cases) {
    if (expected == "B:call_0000000f:fA:M:") expected = "B:call_0000000f:fM:" + text;
    for (int round = 0; round < 40; ++round) {
      ToolCallParser parser(schemas, 15);
      std::vector<ToolCallEvent> events;
      std::string_view rest = text;
      while (!rest.empty()) {
        const size_t n = round == 0 ? rest.size() : std::min<size_t>(rng() % 7 + 1, rest.size());
        for (auto& event : parser.Push(rest.substr(0, n))) events.push_back(std::move(event));
        rest.remove_prefix(n);
      }
      for (auto& event : parser.Flush()) events.push_back(std::move(event));
      ASSERT_EQ(Trace(events), expected);
    }
  }
}

TEST(ToolCallParser, StringsStreamAndTextIsNotHeld) {
  const ToolSchemas schemas = Schemas();
  ToolCallParser parser(schemas, 0);
  EXPECT_EQ(Trace(parser.Push("hello <")), "T:hello ");
  EXPECT_EQ(Trace(parser.Push("b>")), "T:<b>");
  EXPECT_EQ(Trace(parser.Push("<tool_call>\n<function=f>\n")), "B:call_00000000:f");
  EXPECT_EQ(Trace(parser.Push("<parameter=s>\nOs")), "A:{\"s\":\"Os");
  EXPECT_EQ(Trace(parser.Push("lo\n")), "A:lo");
  EXPECT_EQ(Trace(parser.Push("x")), "A:\\nx");
  EXPECT_EQ(Trace(parser.Push("\n</parameter>\n<parameter=i>\n4")), "A:\",\"i\":");
  EXPECT_EQ(Trace(parser.Push("2\n</parameter>")), "A:42");
  EXPECT_EQ(Trace(parser.Push("</function>\n</tool_call>")), "A:}E");
  EXPECT_EQ(Trace(parser.Flush()), "");
}

TEST(ToolCallParser, WholeReply) {
  const ToolSchemas schemas = Schemas();
  const std::string broken = "<tool_call><function=f><parameter=s>x";
  const ParsedReply reply = ParseToolCalls("a" + Call("bare", {}) + broken, schemas, 0xABCDEF12);
  EXPECT_EQ(reply.text, "a" + broken);
  EXPECT_TRUE(reply.malformed);
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].id, "call_abcdef12");
  EXPECT_EQ(reply.calls[0].arguments, "{}");
  EXPECT_TRUE(reply.calls[0].declared);
}

}  // namespace
}  // namespace slotstream::text
