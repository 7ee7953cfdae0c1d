#include "generate/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "generate/constraint_test_support.h"

namespace slotstream::generate {
namespace {

using Json = text::OrderedJson;
using ::testing::HasSubstr;

std::unique_ptr<ConstraintRun> Start(const Constraint& constraint, bool in_reasoning = false) {
  return std::make_unique<ConstraintRun>(constraint, MiniatureIndex(),
                                         std::vector<uint32_t>{StopId()}, in_reasoning);
}

// The text is accepted whole, by tokens of one byte, and may end.
bool Takes(const char* schema, const std::string& text) {
  const auto constraint = MakeConstraint(SchemaShape(Json::parse(schema)));
  EXPECT_TRUE(constraint) << constraint.error().message;
  const auto run = Start(**constraint);
  for (char c : text) {
    uint32_t id = 0;
    while (
        id < Miniature().vocab_size() &&
        (Miniature().IsAddedToken(id) || *Miniature().TokenBytes(id) != std::string_view(&c, 1))) {
      ++id;
    }
    if (!run->Accept(id)) return false;
  }
  return run->MayEnd();
}

std::string ErrorOf(const char* schema) {
  const auto constraint = MakeConstraint(SchemaShape(Json::parse(schema)));
  return constraint ? "accepted" : constraint.error().message;
}

TEST(Constraint, WhiteSpaceIsBounded) {
  const char* schema = R"({"type": "array", "items": {"type": "integer"}})";
  EXPECT_TRUE(Takes(schema, "[]"));
  EXPECT_TRUE(Takes(schema, "[1,2]"));
  EXPECT_TRUE(Takes(schema, "[ 1, 2 ]"));
  EXPECT_TRUE(Takes(schema, "[\n  1,\n  2\n]"));
  for (const char* bad : {" []", "[] ", "[  1]", "[\n\n1]", "[1 ,2]", "[1,]", "[,1]", "[1 2]"}) {
    EXPECT_FALSE(Takes(schema, bad)) << bad;
  }
  EXPECT_FALSE(Takes(schema, "[\n" + std::string(65, ' ') + "1]"));
}

TEST(Constraint, Strings) {
  const char* any = R"({"type": "string"})";
  for (const char* good : {R"("")", R"("a\"b\\\/\b\f\n\r\t")", R"("\u00e9\uD83D\uDE00")",
                           "\"é€😀\"", R"("\ud7ff\uE000")"}) {
    EXPECT_TRUE(Takes(any, good)) << good;
  }
  for (const char* bad : {"\"a\nb\"", "\"\x01\"", R"("\x")", R"("\u12g4")", R"("\uD83D")",
                          R"("\uD83Dx")", R"("\uDE00")", R"("\uD83D\u0041")", "\"\xC0\x80\"",
                          "\"\xED\xA0\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xE2\x82\"", "\"a"}) {
    EXPECT_FALSE(Takes(any, bad)) << bad;
  }
  const char* bounded = R"({"type": "string", "minLength": 2, "maxLength": 3})";
  EXPECT_FALSE(Takes(bounded, R"("a")"));
  EXPECT_TRUE(Takes(bounded, "\"é€😀\""));
  EXPECT_TRUE(Takes(bounded, R"("\uD83D\uDE00\u0041")"));
  EXPECT_FALSE(Takes(bounded, R"("abcd")"));
}

TEST(Constraint, ObjectsInAnyOrder) {
  const char* schema = R"({"type": "object", "properties": {"a": {"type": "integer"},
      "ab": {"type": "boolean"}, "c": {"const": null}}, "required": ["a", "c"]})";
  EXPECT_TRUE(Takes(schema, R"({"a": 1, "c": null})"));
  EXPECT_TRUE(Takes(schema, R"({"c":null,"ab":true,"a":1})"));
  EXPECT_TRUE(Takes(schema, "{\n  \"a\": 1,\n  \"c\": null\n}"));
  for (const char* bad : {R"({"a": 1})", R"({"a": 1, "c": null, "a": 2})", R"({"a": true})",
                          R"({"a": 1, "c": null, "d": 1})", R"({"a": 1, "c": null,})", "{}"}) {
    EXPECT_FALSE(Takes(schema, bad)) << bad;
  }
  const char* open = R"({"properties": {"key": {"type": "integer"}, "kéy": true},
      "additionalProperties": {"type": "string"}})";
  EXPECT_TRUE(Takes(open, R"({"ke": "x", "keys": "y", "key": 1, "k": "z", "": "", "kèy": "u"})"));
  EXPECT_FALSE(Takes(open, R"({"key": "x"})"));
  EXPECT_FALSE(Takes(open, R"({"keys": 1})"));
  EXPECT_FALSE(Takes(open, "{\"k\xC3\": \"x\"}"));
  const char* counted = R"({"properties": {"a": {"const": 1}, "b": {"const": 1}, "c": {"const": 1}},
      "required": ["c"], "minProperties": 2, "maxProperties": 2})";
  EXPECT_TRUE(Takes(counted, R"({"a":1,"c":1})"));
  EXPECT_FALSE(Takes(counted, R"({"c":1})"));
  EXPECT_FALSE(Takes(counted, R"({"a":1,"b":1)"));
}

TEST(Constraint, JoinedSchemas) {
  const char* all = R"({"allOf": [{"$ref": "#/$defs/base"}], "properties": {"b": {"minimum": 3}},
      "$defs": {"base": {"type": "object", "properties": {"b": {"type": "integer"}},
                         "required": ["b"]}}})";
  EXPECT_TRUE(Takes(all, R"({"b": 3})"));
  EXPECT_FALSE(Takes(all, R"({"b": 2})"));
  EXPECT_FALSE(Takes(all, "{}"));
  const char* beside = R"({"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [
      {"required": ["a"]}, {"properties": {"b": {"const": "x"}}, "required": ["b"]}]})";
  EXPECT_TRUE(Takes(beside, R"({"a": 1})"));
  EXPECT_TRUE(Takes(beside, R"({"b": "x"})"));
  EXPECT_FALSE(Takes(beside, "{}"));
  EXPECT_TRUE(Takes(R"({"type": ["integer", "null"], "title": "t", "default": 1})", "null"));
  EXPECT_TRUE(Takes(R"({"enum": [1, 12, "a", {"b": [1]}]})", "12"));
  EXPECT_TRUE(Takes(R"({"enum": [1, 12, "a", {"b": [1]}]})", R"({"b":[1]})"));
  EXPECT_FALSE(Takes(R"({"enum": [1, 12, "a"]})", "2"));
}

TEST(Constraint, NamesWhatIsNotKept) {
  EXPECT_THAT(ErrorOf(R"({"properties": {"a/b": {"type": "array", "uniqueItems": true}}})"),
              HasSubstr("format#/properties/a~1b/uniqueItems"));
  EXPECT_THAT(ErrorOf(R"x({"type": "string", "pattern": "(?=a)"})x"), HasSubstr("format#/pattern"));
  EXPECT_THAT(ErrorOf(R"({"format": "iri"})"), HasSubstr("format#/format"));
  EXPECT_THAT(ErrorOf(R"({"not": {}})"), HasSubstr("\"not\""));
  EXPECT_THAT(ErrorOf(R"({"type": "text"})"), HasSubstr("format#/type"));
  EXPECT_THAT(ErrorOf(R"({"$ref": "#/$defs/none"})"), HasSubstr("not in the schema"));
  EXPECT_THAT(ErrorOf(R"({"$ref": "http://x/y"})"), HasSubstr("within the schema"));
  EXPECT_THAT(ErrorOf(R"({"items": 5})"), HasSubstr("format#/items"));
  EXPECT_THAT(ErrorOf(R"({"type": "integer", "minimum": 5, "maximum": 4})"), HasSubstr("nothing"));
  EXPECT_THAT(ErrorOf(R"({"enum": []})"), HasSubstr("nothing"));
  EXPECT_THAT(ErrorOf(R"({"type": "number", "multipleOf": 0.5})"), HasSubstr("multipleOf"));
  EXPECT_THAT(ErrorOf(R"({"minLength": -1})"), HasSubstr("not a count"));
}

TEST(Constraint, HostileSchemas) {
  // References that lead nowhere, or to what never ends.
  EXPECT_THAT(ErrorOf(R"({"$ref": "#"})"), HasSubstr("leads to itself"));
  EXPECT_THAT(ErrorOf(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"),
              HasSubstr("leads to itself"));
  EXPECT_THAT(ErrorOf(R"({"allOf": [{"$ref": "#"}]})"), HasSubstr("itself"));
  EXPECT_THAT(ErrorOf(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
              HasSubstr("within itself"));
  EXPECT_TRUE(Takes(R"({"properties": {"a": {"$ref": "#"}}})", R"({"a":{"a":{}}})"));
  // A chain of schemas, each with the next one twice, would double with every step.
  Json chain = {{"$ref", "#/$defs/d0"}};
  for (int i = 0; i < 100; ++i) {
    const Json next = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    chain["$defs"]["d" + std::to_string(i)] = {{"anyOf", {next, next}}};
  }
  chain["$defs"]["d100"] = {{"type", "integer"}};
  EXPECT_EQ(ErrorOf(chain.dump().c_str()), "accepted");
  EXPECT_TRUE(Takes(chain.dump().c_str(), "7"));
  for (int i = 0; i < 100; ++i) {
    Json& step = chain["$defs"]["d" + std::to_string(i)];
    step["allOf"] = step["anyOf"];
    step.erase("anyOf");
  }
  EXPECT_NE(ErrorOf(chain.dump().c_str()), "accepted");
  // Ambiguity that doubles with every level of the document.
  const char* twins = R"({"anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}], "$defs": {
      "x": {"type": "array", "items": {"$ref": "#"}}, "y": {"type": "array", "maxItems": 5,
      "items": {"$ref": "#"}}}})";
  EXPECT_TRUE(Takes(twins, std::string(40, '[') + std::string(40, ']')));
  // Deep documents end at the bound, however the schema invites them.
  EXPECT_FALSE(Takes(R"({"items": {"$ref": "#"}})", std::string(70, '[') + std::string(70, ']')));
  const Json wide = {{"prefixItems", std::vector<bool>(30'000, true)}};
  EXPECT_THAT(ErrorOf(wide.dump().c_str()), HasSubstr("too large"));
  Json deep = true;
  for (int i = 0; i < 300; ++i) deep = Json{{"items", deep}};
  EXPECT_NE(ErrorOf(deep.dump().c_str()), "accepted");
}

// A mask allows what one stack takes on its own; so does the machine when there are too many.
TEST(Constraint, TooManyStacks) {
  const auto constraint = MakeConstraint(SchemaShape(Json::parse(R"({
      "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}], "$defs": {
      "x": {"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "y": {"type": "array",
      "maxItems": 5, "items": {"$ref": "#"}}}})")));
  ASSERT_TRUE(constraint);
  const auto run = Start(**constraint);
  for (int depth = 0; depth < 12; ++depth) {
    const auto state = run->state();
    for (uint32_t id : Allowed(*run)) {
      ASSERT_TRUE(run->Accept(id)) << *Miniature().TokenBytes(id) << " at " << depth;
      run->Restore(state);
    }
    ASSERT_TRUE(run->Accept(Encode("[")[0]));
  }
  EXPECT_EQ(run->state().stacks.size(), kMostStacks);
}

TEST(Constraint, FramesOfThePastAreDropped) {
  const auto constraint = MakeConstraint(SchemaShape(
      Json::parse(R"({"type": "array", "items": {"type": "integer"}, "maxItems": 1000000})")));
  ASSERT_TRUE(constraint);
  const auto run = Start(**constraint);
  const auto accept = [&](std::string_view text) {
    for (uint32_t id : Encode(text)) {
      if (!run->Accept(id)) return false;
    }
    return true;
  };
  ASSERT_TRUE(accept("[1"));
  const auto early = run->state();
  const std::vector<uint32_t> allowed = Allowed(*run);
  size_t most = 0;
  for (int i = 0; i < 30'000; ++i) {
    ASSERT_TRUE(accept(",1"));
    most = std::max(most, run->state().frames->bytes());
  }
  EXPECT_GT(most, 1'000'000u);
  EXPECT_LT(most, 1'100'000u);
  EXPECT_EQ(Allowed(*run), allowed);
  run->Restore(early);
  EXPECT_EQ(Allowed(*run), allowed);
  EXPECT_TRUE(accept(",2]"));
  EXPECT_TRUE(run->Finished());
}

TEST(Constraint, CountsAreNotExpanded) {
  const char* schema = R"({"type": "object", "properties": {"n": {"type": "integer",
      "minimum": -9007199254740991, "maximum": 9007199254740991}, "l": {"type": "array",
      "items": {"type": "string", "maxLength": 9007199254740991}, "maxItems": 9007199254740991}},
      "additionalProperties": false})";
  const auto constraint = MakeConstraint(SchemaShape(Json::parse(schema)));
  ASSERT_TRUE(constraint);
  EXPECT_LT((*constraint)->grammar.size(), 20u);
  EXPECT_TRUE(Takes(schema, R"({"l": ["a", "b"], "n": -9007199254740991})"));
  EXPECT_FALSE(Takes(schema, R"({"n": 9007199254740992})"));
}

TEST(Constraint, BehindReasoning) {
  const auto constraint = MakeConstraint(SchemaShape(Json{{"type", "integer"}}));
  const auto run = Start(**constraint, /*in_reasoning=*/true);
  const auto accept = [&](std::string_view text) {
    for (uint32_t id : Encode(text)) {
      if (!run->Accept(id)) return false;
    }
    return true;
  };
  EXPECT_FALSE(run->Accept(StopId()));
  EXPECT_TRUE(accept("any { text <think </thin"));
  EXPECT_FALSE(run->MayEnd());
  EXPECT_TRUE(accept(" and </think>"));
  EXPECT_FALSE(accept("x"));
  EXPECT_TRUE(accept("\n\n4"));
  EXPECT_TRUE(run->MayEnd());
  EXPECT_FALSE(run->Finished());
  EXPECT_TRUE(run->Accept(StopId()));
}

// Tokens that would end the reasoning and go on are taken away; the mask says the same.
TEST(Constraint, FiltersWhatItWouldNotAccept) {
  const auto constraint = MakeConstraint(SchemaShape(Json{{"type", "boolean"}}));
  const auto run = Start(**constraint);
  std::vector<float> logits(Miniature().vocab_size() + 10, 1.0f);
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  run->Filter(logits);
  size_t open = 0;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == -std::numeric_limits<float>::infinity()) continue;
    ++open;
    const auto state = run->state();
    EXPECT_TRUE(run->Accept(id)) << id;
    run->Restore(state);
  }
  EXPECT_GE(open, 2u);
  EXPECT_LE(open, 10u);
}

}  // namespace
}  // namespace slotstream::generate
