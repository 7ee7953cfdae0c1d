#include "generate/call_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "generate/constraint_test_support.h"
#include "text/tool_call_parser.h"

namespace slotstream::generate {
namespace {

using Json = text::OrderedJson;
using ::testing::HasSubstr;

const Json& Tools() {
  static const Json tools = Json::parse(R"([
    {"type": "function", "function": {"name": "search", "parameters": {"type": "object",
      "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 12},
                     "limit": {"type": "integer", "minimum": 1, "maximum": 50},
                     "order": {"enum": ["up", "down", "7"]},
                     "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                     "loose": {},
                     "either": {"type": ["string", "integer"]},
                     "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                     "where": {"$ref": "#/$defs/place"}},
      "required": ["query", "tags", "where"],
      "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}},
                          "required": ["city"]}}}}},
    {"type": "function", "function": {"name": "searches"}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object",
      "properties": {}}}}])");
  return tools;
}

ReplyShape Shape(ReplyShape::Calls calls, std::string tool = "") {
  ReplyShape shape;
  shape.calls = calls;
  shape.tools = Tools();
  shape.tool = std::move(tool);
  return shape;
}

void ExpectValidCalls(const std::string& text, const std::string& only) {
  const text::ToolSchemas schemas = text::ToolSchemas::FromTools(Tools());
  const text::ParsedReply reply = text::ParseToolCalls(text, schemas, 0);
  ASSERT_FALSE(reply.malformed) << text;
  ASSERT_FALSE(reply.calls.empty()) << text;
  for (const text::ParsedToolCall& call : reply.calls) {
    ASSERT_TRUE(call.declared) << text;
    if (!only.empty()) {
      ASSERT_EQ(call.name, only);
    }
    const Json arguments = Json::parse(call.arguments, nullptr, false);
    ASSERT_FALSE(arguments.is_discarded()) << call.arguments;
    for (const Json& tool : Tools()) {
      const Json& function = tool["function"];
      if (function["name"] != call.name || !function.contains("parameters")) continue;
      ASSERT_TRUE(Validator(function["parameters"]).Valid(arguments)) << text << call.arguments;
    }
  }
}

TEST(CallGrammar, ForcedCallsAreValid) {
  for (const char* only : {"", "search"}) {
    const auto constraint = MakeConstraint(Shape(ReplyShape::Calls::kForced, only));
    ASSERT_TRUE(constraint) << constraint.error().message;
    std::mt19937 rng(8);
    for (int round = 0; round < 200; ++round) {
      ConstraintRun run(**constraint, MiniatureIndex(), {StopId()}, false);
      // As a server begins such a reply.
      for (uint32_t id : Encode("<tool_call>\n<function=")) {
        ASSERT_TRUE(run.Accept(id));
      }
      const RandomReply reply = DrawReply(run, rng, 60);
      ASSERT_TRUE(reply.ended) << reply.text;
      ExpectValidCalls("<tool_call>\n<function=" + reply.text, only);
    }
  }
}

bool Takes(const Constraint& constraint, const std::string& text) {
  ConstraintRun run(constraint, MiniatureIndex(), {StopId()}, false);
  for (uint32_t id : Encode(text)) {
    if (!run.Accept(id)) return false;
  }
  return run.MayEnd();
}

constexpr const char* kCall =
    "<tool_call>\n<function=search>\n<parameter=query>\na </param\n\n</parameter>\n"
    "<parameter=where>\n{\"city\": \"Oslo\"}\n</parameter>\n<parameter=tags>\n[]\n</parameter>\n"
    "</function>\n</tool_call>";

TEST(CallGrammar, TakesTheTemplatesForm) {
  const auto constraint = MakeConstraint(Shape(ReplyShape::Calls::kForced));
  const std::string call = kCall;
  EXPECT_TRUE(Takes(**constraint, call));
  EXPECT_TRUE(
      Takes(**constraint, call + "\n<tool_call>\n<function=now>\n</function>\n</tool_call>"));
  EXPECT_FALSE(Takes(**constraint, call + "\n"));
  EXPECT_FALSE(Takes(**constraint, "text"));
  EXPECT_FALSE(Takes(**constraint, "<tool_call>\n<function=search>\n</function>\n</tool_call>"));
  EXPECT_FALSE(Takes(**constraint, "<tool_call>\n<function=then>\n</function>\n</tool_call>"));
}

// Free until a call begins, and again after it.
TEST(CallGrammar, StrictToolsInFreeText) {
  ReplyShape shape = Shape(ReplyShape::Calls::kStrict);
  const auto constraint = MakeConstraint(shape);
  ASSERT_TRUE(constraint);
  const std::string call = kCall;
  EXPECT_TRUE(Takes(**constraint, "Hello <tool"));
  EXPECT_TRUE(Takes(**constraint, "I look. " + call + " Done."));
  EXPECT_FALSE(Takes(**constraint, "I look. <tool_call>\n<function=absent>"));
  EXPECT_FALSE(Takes(**constraint, "<tool_call>\n"));
  shape.document = ReplyShape::Document::kAnyObject;
  const auto both = MakeConstraint(shape);
  EXPECT_TRUE(Takes(**both, call));
  EXPECT_TRUE(Takes(**both, "{\"a\": 1}"));
  EXPECT_FALSE(Takes(**both, "Hello"));
}

TEST(CallGrammar, WhatCannotBeKept) {
  ReplyShape shape = Shape(ReplyShape::Calls::kForced, "f");
  shape.tools = Json::parse(R"([{"function": {"name": "f", "parameters": {"properties": {
      "a": {"type": "array", "uniqueItems": true}, "b": {"type": "string", "pattern": "x"}}}}}])");
  EXPECT_TRUE(MakeConstraint(shape));
  shape.strict = {"f"};
  EXPECT_THAT(MakeConstraint(shape).error().message, HasSubstr("\"f\" parameters#/properties/a"));
  shape.strict.clear();
  shape.tools[0]["function"]["parameters"]["properties"]["a"] = false;
  shape.tools[0]["function"]["parameters"]["required"] = {"a"};
  EXPECT_THAT(MakeConstraint(shape).error().message, HasSubstr("no tool can be called"));
  shape.tool = "";
  shape.tools.push_back(Tools()[1]);
  EXPECT_TRUE(MakeConstraint(shape));
}

}  // namespace
}  // namespace slotstream::generate
