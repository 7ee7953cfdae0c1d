// What a mask costs, counted in steps.
#include "generate/mask_builder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "generate/class_trie.h"
#include "generate/constraint_test_support.h"

namespace slotstream::generate {
namespace {

using Json = text::OrderedJson;

uint64_t MostWork() { return MostMaskWork(Miniature().vocab_size()); }

// A text of so many characters, each by a token of its own where that may be.
void Write(ConstraintRun& run, std::string_view text) {
  for (char c : text) ASSERT_TRUE(run.Accept(Encode(std::string(1, c)).at(0))) << text;
}

TEST(MaskWork, AWidePatternGoesByClasses) {
  const Json schema = {{"type", "string"}, {"pattern", "^[^<>]*$"}, {"maxLength", 60}};
  const auto constraint = MakeConstraint(SchemaShape(schema));
  ASSERT_TRUE(constraint);
  ConstraintRun run(**constraint, MiniatureIndex(), {StopId()}, false);
  Write(run, "\"");
  uint64_t most = 0;
  for (int count = 0; count < 50; ++count) {
    EXPECT_GT(Allowed(run).size(), 3000u);
    most = std::max(most, run.mask_work());
    Write(run, "a");
  }
  // A walk over bytes would take a step for nearly each of them.
  EXPECT_LT(most, MiniatureIndex().trie().size() / 4);
}

TEST(MaskWork, ClassesThatAreManyAreNoneAtAll) {
  std::vector<char32_t> classes;
  for (char32_t c = 0; c < 0x3000; ++c) classes.push_back(c);
  const TokenTrie& trie = MiniatureIndex().trie();
  const size_t vocab_size = Miniature().vocab_size();
  EXPECT_EQ(ClassTrie::Make(trie, TextForm::kJson, classes, vocab_size, 1000), nullptr);
  const auto all = ClassTrie::Make(trie, TextForm::kJson, classes, vocab_size, trie.size());
  ASSERT_NE(all, nullptr);
  const auto few =
      ClassTrie::Make(trie, TextForm::kJson, std::vector<char32_t>{0, '<', '='}, vocab_size, 1000);
  ASSERT_NE(few, nullptr);
  EXPECT_LT(10 * few->size(), all->size());
}

// Hostile schemas: the work is bounded, something can always follow, and what can doesn't depend on
// what was kept.
TEST(MaskWork, IsBounded) {
  Json patterns = Json::array(), lengths = Json::array(), objects = Json::array();
  for (int i = 0; i < 90; ++i) {
    patterns.push_back({{"type", "string"}, {"pattern", fmt::format("^[^\\x{:02x}]*$", 33 + i)}});
  }
  for (int i = 0; i < 500; ++i) {
    lengths.push_back({{"type", "array"}, {"items", {{"type", "string"}, {"maxLength", i + 5}}}});
  }
  Json members = Json::object();
  for (int i = 0; i < 600; ++i) members["k" + std::to_string(i)] = {{"type", "integer"}};
  for (int i = 0; i < 8; ++i) {
    objects.push_back({{"type", "object"}, {"properties", members}, {"minProperties", i}});
  }
  for (const Json& ways : {patterns, lengths, objects}) {
    const Json schema = {{"anyOf", ways}};
    const auto constraint = MakeConstraint(SchemaShape(schema));
    ASSERT_TRUE(constraint) << constraint.error().message;
    ConstraintRun run(**constraint, MiniatureIndex(), {StopId()}, false);
    std::mt19937 rng(3);
    std::vector<uint32_t> written;
    uint64_t most = 0;
    for (int step = 0; step < 12 && !run.Finished(); ++step) {
      const std::vector<uint32_t> allowed = Allowed(run);
      ASSERT_FALSE(allowed.empty());
      most = std::max(most, run.mask_work());
      EXPECT_EQ(allowed, Allowed(run));
      ConstraintRun fresh(**constraint, MiniatureIndex(), {StopId()}, false);
      for (uint32_t id : written) ASSERT_TRUE(fresh.Accept(id));
      EXPECT_EQ(allowed, Allowed(fresh));
      const uint32_t id = allowed[rng() % allowed.size()];
      if (id == StopId()) break;
      ASSERT_TRUE(run.Accept(id)) << *Miniature().TokenBytes(id);
      written.push_back(id);
    }
    // What one frame costs is bounded likewise, and may come on top.
    EXPECT_LT(most, 2 * MostWork() + 100'000) << schema.dump().substr(0, 100);
    if (ways == objects) continue;
    EXPECT_GT(most, MostWork()) << "not hostile enough: " << schema.dump().substr(0, 100);
  }
}

}  // namespace
}  // namespace slotstream::generate
