#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/split_pattern.h"

namespace slotstream::text {
namespace {

using ::testing::ElementsAre;

// The pattern of Qwen3.8-Flash-Next.
constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> Words(std::string_view pattern, std::string_view text) {
  auto pretokenizer = Pretokenizer::Compile(pattern);
  EXPECT_TRUE(pretokenizer) << pretokenizer.error().message;
  std::vector<std::string> words;
  WordCursor cursor(*pretokenizer, text);
  while (true) {
    const auto word = cursor.Next();
    EXPECT_TRUE(word);
    if (!word || word->empty()) return words;
    words.emplace_back(*word);
  }
}

TEST(Pretokenizer, CutsAsTheModelWasTrained) {
  EXPECT_THAT(Words(kPattern, "I'm 42  years\n\n old!?\n x"),
              ElementsAre("I", "'m", " ", "4", "2", " ", " years", "\n\n", " old", "!?\n", " x"));
  EXPECT_THAT(Words(kPattern, "it'ſ I'RE'"), ElementsAre("it", "'ſ", " I", "'RE", "'"));
  EXPECT_THAT(Words(kPattern, "हिन्दी"), ElementsAre("हिन्दी"));  // marks join their letters
}

TEST(Pretokenizer, SpaceIsOnigurumas) {
  // A space and the character between two full stops: one word of punctuation, or three words.
  for (const char* space : {"\t", "\x0B", "\u0085", "\u00A0", "\u1680", "\u2000", "\u200A",
                            "\u2028", "\u202F", "\u205F", "\u3000"}) {
    EXPECT_EQ(Words(kPattern, std::string(".") + space + ".").size(), 3u) << space;
  }
  for (const char* other : {"\x1C", "\x1F", "\u180E", "\u200B", "\uFEFF"}) {
    EXPECT_EQ(Words(kPattern, std::string(".") + other + ".").size(), 1u) << other;
  }
}

TEST(Pretokenizer, ClassesAreThoseOfUnicode16) {
  // A letter of 15.0 (CJK extension H), letter of 16.0 (Garay), mark of 15.0, digit of 16.0.
  EXPECT_THAT(Words(kPattern, "a\U00031350\U00010D4A\U00011F00b"),
              ElementsAre("a\U00031350\U00010D4A\U00011F00b"));
  EXPECT_THAT(Words(kPattern, "\U00010D40\U00010D41"), ElementsAre("\U00010D40", "\U00010D41"));
}

TEST(Pretokenizer, GapsAreWords) {
  EXPECT_THAT(Words("b+", "aabbacc"), ElementsAre("aa", "bb", "acc"));
}

TEST(Pretokenizer, LongRunsAreLinear) {
  const std::string spaces(3'000'000, ' ');
  EXPECT_EQ(Words(kPattern, "\n" + spaces + "x").size(), 3u);
  EXPECT_EQ(Words(kPattern, std::string(3'000'000, 'a')).size(), 1u);
}

TEST(Pretokenizer, RunawayPatternIsAnError) {
  auto pretokenizer = Pretokenizer::Compile("(?:(?:a+)+)+b");
  ASSERT_TRUE(pretokenizer);
  const std::string text(40, 'a');
  WordCursor cursor(*pretokenizer, text);
  const auto word = cursor.Next();
  // PCRE2 may see early that there is no 'b'; then the text is one gap.
  if (word) {
    EXPECT_EQ(*word, text);
  } else {
    EXPECT_EQ(word.error().code, ErrorCode::kResourceLimit);
  }
}

TEST(SplitPattern, RefusesWhatTheEnginesReadDifferently) {
  for (const char* pattern :
       {"^a",      "a$",          "\\h",    "\\w+",  "\\d",  "\\b",     "\\p{Lu}",
        "\\P{L}",  "[[:alpha:]]", "[a&&b]", "[a",    "[]a]", "(?<n>a)", "(?x:a)",
        "(*UTF)a", "a{1,2}+",     "a\\",    "[\\S]", "(a",   "a*",      ""}) {
    const auto result = Pretokenizer::Compile(pattern);
    ASSERT_FALSE(result) << pattern;
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported) << pattern;
  }
  EXPECT_FALSE(TranslateSplitPattern(std::string(5000, 'a')));
}

}  // namespace
}  // namespace slotstream::text
