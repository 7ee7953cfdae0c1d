#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "text/detokenizer.h"
#include "text/test_tokenizer.h"

namespace slotstream::text {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::json;

constexpr const char* kMiniature = SLOTSTREAM_SOURCE_DIR "/models/miniature/tokenizer.json";

Tokenizer Small() {
  auto tokenizer = Tokenizer::FromJson(SmallTokenizerJson().dump(), "small");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

std::vector<TokenId> Encode(const Tokenizer& tokenizer, std::string_view text) {
  auto ids = tokenizer.Encode(text);
  EXPECT_TRUE(ids) << ids.error().message;
  return ids ? *ids : std::vector<TokenId>();
}

TEST(Tokenizer, MergesByRank) {
  const Tokenizer t = Small();
  // "bc" has the lowest rank, so abc is a + bc -> abc; ab alone merges too.
  EXPECT_THAT(Encode(t, "abc"), ElementsAre(257));
  EXPECT_THAT(Encode(t, "abab"), ElementsAre(256, 256));
  EXPECT_THAT(Encode(t, "abcbc"), ElementsAre(257, 258));
  EXPECT_THAT(Encode(t, "cab"), ElementsAre('c', 256));
}

TEST(Tokenizer, AddedTokensAreLongestAndNeverNormalized) {
  const Tokenizer t = Small();
  EXPECT_THAT(Encode(t, "<t><t>><|end|"), ElementsAre(260, 261, '<', '|', 'e', 'n', 'd', '|'));
  // Were the text normalized first, ">" and U+0338 would compose and the literal be gone.
  EXPECT_THAT(Encode(t, "<t>\u0338"), ElementsAre(260, 0xCC, 0xB8));
  EXPECT_THAT(Encode(t, ""), ElementsAre());
}

TEST(Tokenizer, LiteralRanges) {
  const Tokenizer t = Small();
  const std::string text = "<t><t>><t>";
  EXPECT_EQ(t.EncodeUntrusted(text)->size(), text.size());
  const std::vector<TextRange> ranges = {{3, 6}};
  const auto ids = t.Encode(text, ranges);
  ASSERT_TRUE(ids);
  EXPECT_THAT(*ids, ElementsAre(260, '<', 't', '>', '>', 260));
  const std::vector<TextRange> neighbours = {{0, 3}, {6, 7}};
  EXPECT_THAT(*t.Encode("<t><t>x", neighbours), ElementsAre('<', 't', '>', 260, 'x'));
  // A range that covers part of the longest literal leaves a shorter one.
  const std::vector<TextRange> tail = {{6, 7}};
  EXPECT_THAT(*t.Encode("<t><t>>", tail), ElementsAre(260, 260, '>'));
}

TEST(Tokenizer, NormalizesAndRepairs) {
  const Tokenizer t = Small();
  EXPECT_EQ(Encode(t, "e\u0301"), Encode(t, "é"));
  EXPECT_EQ(Encode(t, "a\xFF\xE2\x82<t>b"), Encode(t, "a\uFFFD\uFFFD<t>b"));
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer t = Small();
  EXPECT_EQ(t.vocab_size(), 262u);
  EXPECT_EQ(t.FindAddedToken("<|end|>"), 259u);
  EXPECT_EQ(t.FindAddedToken("ab"), std::nullopt);
  EXPECT_TRUE(t.IsSpecial(259) && t.IsAddedToken(259) && t.IsAddedToken(260));
  EXPECT_FALSE(t.IsSpecial(260) || t.IsAddedToken(256) || t.IsSpecial(99999));
  EXPECT_EQ(t.TokenBytes(257), "abc");
  for (TokenId id : {262u, 1u << 20, UINT32_MAX}) {
    EXPECT_EQ(t.TokenBytes(id).error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(t.Decode(std::vector<TokenId>{'a', id}));
  }
}

TEST(Tokenizer, IdsMayHaveHoles) {
  Json json = SmallTokenizerJson();
  json["added_tokens"][2]["id"] = 300;
  const auto t = Tokenizer::FromJson(json.dump(), "holes");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->vocab_size(), 301u);
  EXPECT_FALSE(t->TokenBytes(280));
}

TEST(Tokenizer, LongWordsAgreeWithNaiveMerging) {
  const Tokenizer t = Small();
  std::mt19937 rng(5);
  const std::string pieces[] = {"a", "b", "c"};
  for (size_t length : {31u, 32u, 33u, 34u, 100u, 1000u}) {
    for (int round = 0; round < 20; ++round) {
      std::string word;
      for (size_t i = 0; i < length; ++i) word += pieces[rng() % 3];
      // By hand: every "bc" first, then "ab", then "a" + "bc".
      std::vector<TokenId> expected;
      for (size_t i = 0; i < length;) {
        const std::string_view rest = std::string_view(word).substr(i);
        const TokenId id = rest.starts_with("abc")  ? 257
                           : rest.starts_with("bc") ? 258
                           : rest.starts_with("ab") ? 256
                                                    : static_cast<TokenId>(rest[0]);
        expected.push_back(id);
        i += t.TokenBytes(id)->size();
      }
      EXPECT_EQ(Encode(t, word), expected) << word;
    }
  }
  EXPECT_EQ(Encode(t, std::string(1'000'000, 'a')).size(), 1'000'000u);
  // Longer than any word of a language; merging it would take gigabytes.
  EXPECT_FALSE(t.Encode("a " + std::string(2'000'000, 'a')));
}

TEST(Tokenizer, ThreadsShareIt) {
  const Tokenizer t = Small();
  const std::string text = "abc ab <t> bca cab abcabc 12 é";
  const auto expected = Encode(t, text);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 500; ++n) wrong += *t.Encode(text) != expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Tokenizer, LoadRefusesWhatIsNoFile) {
  EXPECT_EQ(Tokenizer::Load("/nonexistent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Tokenizer::Load("/tmp").error().code, ErrorCode::kIo);
  EXPECT_EQ(Tokenizer::Load("/dev/zero").error().code, ErrorCode::kIo);
}

// Conversations recorded from the reference implementation, with their ids.
TEST(Tokenizer, MiniatureGoldens) {
  const auto t = Tokenizer::Load(kMiniature);
  ASSERT_TRUE(t) << t.error().message;
  std::ifstream file(SLOTSTREAM_SOURCE_DIR "/tests/goldens/miniature_greedy.json");
  const Json cases = Json::parse(file);
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases) {
    EXPECT_EQ(Encode(*t, c["prompt"].get<std::string>()),
              c["prompt_ids"].get<std::vector<TokenId>>());
    const auto output = c["output_ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(*t->Decode(output), c["output_text"].get<std::string>());
  }
}

TEST(Detokenizer, PiecesAreWholeAndJoinToTheText) {
  const auto t = Tokenizer::Load(kMiniature);
  ASSERT_TRUE(t);
  std::mt19937 rng(3);
  std::vector<std::string> texts = {"héllo wörld 中文 👩‍👩‍👧 ❤️ é",
                                    "<|im_end|>x"};
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> ids;
    if (round < 2) {
      ids = Encode(*t, texts[static_cast<size_t>(round)]);
    } else {  // mostly single bytes, so mostly broken UTF-8
      for (int i = 0; i < 30; ++i) ids.push_back(rng() % (round % 2 ? 256 : t->vocab_size()));
    }
    for (bool skip : {false, true}) {
      Detokenizer stream(*t, skip);
      std::string joined;
      for (TokenId id : ids) {
        const auto piece = stream.Push(id);
        ASSERT_TRUE(piece);
        EXPECT_EQ(ValidPrefix(*piece), piece->size());
        joined += *piece;
      }
      joined += stream.Flush();
      EXPECT_EQ(joined, *t->Decode(ids, skip));
    }
  }
}

TEST(Detokenizer, HoldsOnlyWhatIsIncomplete) {
  const Tokenizer t = Small();
  Detokenizer stream(t, /*skip_special=*/true);
  EXPECT_EQ(*stream.Push('a'), "a");
  EXPECT_EQ(*stream.Push(0xE2), "");
  EXPECT_FALSE(stream.Push(5000));   // changes nothing
  EXPECT_EQ(*stream.Push(259), "");  // special, left out
  EXPECT_EQ(*stream.Push(0x82), "");
  EXPECT_EQ(*stream.Push(0xAC), "€");
  EXPECT_EQ(*stream.Push(0xF0), "");
  EXPECT_EQ(*stream.Push('b'), "\uFFFDb");
  EXPECT_EQ(*stream.Push(0xC3), "");
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  EXPECT_EQ(stream.Flush(), "");
}

}  // namespace
}  // namespace slotstream::text
