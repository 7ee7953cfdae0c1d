// Random schemas: what is drawn under them is valid, and what is valid can be written.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "generate/constraint_test_support.h"

namespace slotstream::generate {
namespace {

using Json = text::OrderedJson;

// Schemas, and values that they allow.
class Maker {
 public:
  explicit Maker(uint32_t seed) : rng_(seed) {}

  Json Schema(int depth) {
    Json root = Node(depth);
    root["$defs"] = {{"list",
                      {{"type", "object"},
                       {"properties",
                        {{"v", {{"type", "boolean"}}},
                         {"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/list"}}}}}}}},
                       {"required", {"next"}}}}};
    return root;
  }

  Json Value(const Json& root, const Json& schema, int depth) {
    if (schema.contains("$ref")) {
      return Value(root, root.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))),
                   depth + 1);
    }
    if (schema.contains("anyOf")) {
      return Value(root, depth > 5 ? schema["anyOf"][0] : Pick(schema["anyOf"]), depth);
    }
    if (schema.contains("enum")) return Pick(schema["enum"]);
    if (schema.contains("const")) return schema["const"];
    const std::string type = schema.value("type", "null");
    if (type == "boolean") return Chance(2);
    if (type == "integer") {
      return schema.contains("minimum") ? Between(schema["minimum"], schema["maximum"])
                                        : Between(-100000, 100000);
    }
    if (type == "number") {
      if (schema.contains("minimum")) return schema["minimum"].get<double>() + 0.25;
      return Between(-1000, 1000) / 8.0;
    }
    if (type == "string") {
      std::string text;
      const int least = schema.value("minLength", 0), most = schema.value("maxLength", least + 6);
      for (int n = Between(least, most); n > 0; --n) text += Character();
      return text;
    }
    if (type == "array") {
      Json list = Json::array();
      const Json prefix = schema.value("prefixItems", Json::array());
      int count = Between(schema.value("minItems", 0), schema.value("maxItems", 3));
      if (!schema.contains("items")) count = std::min<int>(count, static_cast<int>(prefix.size()));
      for (int i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        list.push_back(Value(root, at < prefix.size() ? prefix[at] : schema["items"], depth + 1));
      }
      return list;
    }
    if (type == "object") {
      std::vector<std::pair<std::string, Json>> members;
      for (const auto& [key, part] : schema["properties"].items()) {
        const Json required = schema.value("required", Json::array());
        const bool needed = std::find(required.begin(), required.end(), key) != required.end();
        if (needed || Chance(2)) members.emplace_back(key, Value(root, part, depth + 1));
      }
      if (schema.value("additionalProperties", Json(false)) != false && Chance(2)) {
        members.emplace_back("other " + std::to_string(Between(0, 9)),
                             Value(root, schema["additionalProperties"], depth + 1));
      }
      std::shuffle(members.begin(), members.end(), rng_);
      Json object = Json::object();
      for (auto& [key, value] : members) object[key] = std::move(value);
      return object;
    }
    return nullptr;
  }

  int Between(int low, int high) {
    return low + static_cast<int>(rng_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(int of) { return Between(1, of) == 1; }
  std::mt19937& rng() { return rng_; }

 private:
  Json Node(int depth) {
    switch (Between(0, depth > 0 ? 11 : 6)) {
      case 0:
        return {{"type", "boolean"}};
      case 1:
        return {{"type", "null"}};
      case 2: {
        const int low = Between(-2000, 2000);
        if (Chance(2)) return {{"type", "integer"}};
        return {{"type", "integer"}, {"minimum", low}, {"maximum", low + Between(0, 300)}};
      }
      case 3: {
        const int low = Between(-20, 20);
        if (Chance(2)) return {{"type", "number"}};
        return {{"type", "number"}, {"minimum", low}, {"maximum", low + 0.5}};
      }
      case 4: {
        Json text = {{"type", "string"}};
        if (Chance(2)) text["minLength"] = Between(0, 4);
        if (Chance(2)) text["maxLength"] = Between(4, 9);
        return text;
      }
      case 5:
        return {{"enum", {"red", "ré\"d", 1, 12, nullptr, true}}};
      case 6:
        return {{"const", Chance(2) ? Json("fixed") : Json{{"a", {1, 2}}}}};
      case 7: {
        Json list = {{"type", "array"}, {"items", Node(depth - 1)}};
        if (Chance(2)) list["minItems"] = Between(0, 2);
        if (Chance(2)) list["maxItems"] = Between(2, 4);
        if (Chance(4)) list["prefixItems"] = Json::array({Node(depth - 1)});
        return list;
      }
      case 8:
        return {{"anyOf", Json::array({Node(depth - 1), Node(depth - 1)})}};
      case 9:
        return {{"$ref", "#/$defs/list"}};
      default: {
        Json object = {{"type", "object"}, {"properties", Json::object()}};
        Json required = Json::array();
        for (const char* key : {"a", "alpha", "b c", "über"}) {
          if (Chance(3)) continue;
          object["properties"][key] = Node(depth - 1);
          if (Chance(2)) required.push_back(key);
        }
        if (!required.empty()) object["required"] = required;
        if (Chance(3)) {
          object["additionalProperties"] = Node(depth - 1);
          // A draw would write names of its own for ever before it met a required one.
          object["maxProperties"] = object["properties"].size() + 2;
        }
        if (object["properties"].empty() && !object.contains("additionalProperties")) {
          object["additionalProperties"] = false;
        }
        return object;
      }
    }
  }
  Json Pick(const Json& list) { return list[rng_() % list.size()]; }
  std::string Character() {
    constexpr std::array<const char*, 12> characters = {"a", "Z", " ",  "\"", "\\", "\n",
                                                        "é", "€", "😀", "{",  "<",  "7"};
    return characters[rng_() % characters.size()];
  }

  std::mt19937 rng_;
};

// A token that `rest` begins with, any of them.
uint32_t AnyToken(std::string_view rest, std::mt19937& rng) {
  const TokenTrie& trie = MiniatureIndex().trie();
  std::vector<uint32_t> found;
  uint32_t node = 0;
  for (char c : rest) {
    uint32_t child = node + 1;
    while (child < trie.end(node) && trie.byte(child) != static_cast<uint8_t>(c)) {
      child = trie.end(child);
    }
    if (child >= trie.end(node)) break;
    node = child;
    if (trie.token(node) != TokenTrie::kNoToken) found.push_back(trie.token(node));
  }
  return found[rng() % found.size()];
}

TEST(ConstraintProperty, WhatIsDrawnIsValid) {
  size_t replies = 0, longest = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Maker maker(seed);
    const Json schema = maker.Schema(3);
    const auto constraint = MakeConstraint(SchemaShape(schema));
    ASSERT_TRUE(constraint) << constraint.error().message << "\n" << schema;
    for (int draw = 0; draw < 3; ++draw) {
      ConstraintRun run(**constraint, MiniatureIndex(), {StopId()}, false);
      const RandomReply reply = DrawReply(run, maker.rng(), 40);
      ASSERT_TRUE(reply.ended) << schema << "\n" << reply.text;
      const Json value = Json::parse(reply.text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << schema << "\n" << reply.text;
      ASSERT_TRUE(Validator(schema).Valid(value)) << schema << "\n" << reply.text;
      ++replies;
      longest = std::max(longest, reply.tokens);
    }
  }
  EXPECT_EQ(replies, 1200u);
  EXPECT_LT(longest, 2500u);
}

TEST(ConstraintProperty, WhatIsValidCanBeWritten) {
  size_t tokens = 0;
  for (uint32_t seed = 1000; seed < 1300; ++seed) {
    Maker maker(seed);
    const Json schema = maker.Schema(3);
    const auto constraint = MakeConstraint(SchemaShape(schema));
    ASSERT_TRUE(constraint) << constraint.error().message << "\n" << schema;
    for (int style = 0; style < 3; ++style) {
      const Json value = maker.Value(schema, schema, 0);
      ASSERT_TRUE(Validator(schema).Valid(value)) << schema << "\n" << value;
      // Listed values have one form.
      const bool compact = style == 0 || schema.dump().find("\"const\":{") != std::string::npos;
      const std::string text = compact      ? value.dump()
                               : style == 1 ? value.dump(2)
                                            : *text::WriteJson(value, text::JsonStyle::kPython);
      ConstraintRun run(**constraint, MiniatureIndex(), {StopId()}, false);
      for (size_t at = 0; at < text.size();) {
        const uint32_t id = AnyToken(std::string_view(text).substr(at), maker.rng());
        std::vector<float> logits(Miniature().vocab_size(), 0.0f);
        run.Filter(logits);
        ASSERT_EQ(logits[id], 0) << schema << "\n" << text << "\nat " << at;
        ASSERT_TRUE(run.Accept(id)) << schema << "\n" << text << "\nat " << at;
        at += Miniature().TokenBytes(id)->size();
        ++tokens;
      }
      ASSERT_TRUE(run.MayEnd()) << schema << "\n" << text;
    }
  }
  EXPECT_GT(tokens, 10'000u);
}

// The mask, built of parts that are kept, agrees with running every token from where the reply
// stands; a restored state has the same mask.
TEST(ConstraintProperty, MasksAgreeWithTheMachine) {
  for (uint32_t seed = 2000; seed < 2040; ++seed) {
    Maker maker(seed);
    const Json schema = maker.Schema(3);
    const auto constraint = MakeConstraint(SchemaShape(schema));
    ASSERT_TRUE(constraint);
    ConstraintRun run(**constraint, MiniatureIndex(), {StopId()}, false);
    for (int step = 0; step < 25 && !run.Finished(); ++step) {
      const auto state = run.state();
      const std::vector<uint32_t> allowed = Allowed(run);
      ASSERT_FALSE(allowed.empty());
      std::vector<uint32_t> accepted;
      for (uint32_t id = 0; id < Miniature().vocab_size(); ++id) {
        if (run.Accept(id)) accepted.push_back(id);
        run.Restore(state);
      }
      ASSERT_EQ(allowed, accepted) << schema;
      const uint32_t id = allowed[maker.rng()() % allowed.size()];
      if (id == StopId()) break;
      ASSERT_TRUE(run.Accept(id));
    }
  }
}

ReplyShape CallShape(const Json& parameter) {
  ReplyShape shape;
  shape.calls = ReplyShape::Calls::kForced;
  shape.tools = Json::array(
      {{{"type", "function"},
        {"function",
         {{"name", "f"},
          {"parameters",
           {{"type", "object"}, {"properties", {{"a", parameter}}}, {"required", {"a"}}}}}}}});
  shape.strict = {"f"};
  return shape;
}

// Patterns wide enough to go by classes of characters, narrow ones, and several at once.
TEST(ConstraintProperty, MasksOfPatternsAgreeWithTheMachine) {
  const auto text = [](const char* pattern, Json more = Json::object()) {
    more["type"] = "string";
    more["pattern"] = pattern;
    return more;
  };
  const std::vector<Json> texts = {text("^[^<>]*$"),
                                   text("^[^<>]*$", {{"maxLength", 7}, {"minLength", 3}}),
                                   text("^(é[^é]{0,3}|[a-z ]+|\\\\\"?)*$"),
                                   text("^[^a-f]{2,30}[0-9]$"),
                                   text("^[\\u4e00-\\u9fff\\w -]*€?$", {{"maxLength", 20}}),
                                   {{"type", "string"}, {"format", "email"}},
                                   {{"type", "string"}, {"format", "date"}}};
  std::vector<ReplyShape> shapes;
  for (const Json& one : texts) {
    shapes.push_back(SchemaShape({{"type", "array"}, {"items", one}, {"maxItems", 3}}));
    shapes.push_back(CallShape(one));
  }
  shapes.push_back(SchemaShape({{"anyOf", {texts[1], texts[2], texts[3], texts[4]}}}));
  std::mt19937 rng(7);
  size_t wide = 0;
  for (const ReplyShape& shape : shapes) {
    const auto constraint = MakeConstraint(shape);
    ASSERT_TRUE(constraint) << constraint.error().message << shape.schema;
    ConstraintRun run(**constraint, MiniatureIndex(), {StopId()}, false);
    std::string so_far;
    for (int step = 0; step < 16 && !run.Finished(); ++step) {
      const auto state = run.state();
      const std::vector<uint32_t> allowed = Allowed(run);
      ASSERT_FALSE(allowed.empty());
      wide += allowed.size() > 1000;
      std::vector<uint32_t> accepted;
      for (uint32_t id = 0; id < Miniature().vocab_size(); ++id) {
        if (run.Accept(id)) accepted.push_back(id);
        run.Restore(state);
      }
      ASSERT_EQ(allowed, accepted) << shape.schema << shape.tools << so_far;
      const uint32_t id = allowed[rng() % allowed.size()];
      if (id == StopId()) break;
      ASSERT_TRUE(run.Accept(id));
      so_far += *Miniature().TokenBytes(id);
    }
  }
  EXPECT_GT(wide, 40u);
}

}  // namespace
}  // namespace slotstream::generate
