#include "generate/pattern.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <regex>
#include <string>

#include "generate/pattern_text.h"

namespace slotstream::generate {
namespace {

// The text between the quotes of a JSON string.
bool Takes(const Pattern& pattern, std::string_view text) {
  size_t bytes = 1 << 20;
  PatternRun run(pattern, bytes);
  PatternTextState state;
  for (char c : text) {
    if (StepPatternText(TextForm::kJson, run, state, static_cast<uint8_t>(c)) !=
        ScanStep::Kind::kStay) {
      return false;
    }
  }
  return StepPatternText(TextForm::kJson, run, state, '"') == ScanStep::Kind::kEnd;
}

bool Takes(const char* pattern, std::string_view text) {
  const auto compiled = Pattern::Compile(pattern, BarredCharacters(TextForm::kJson));
  EXPECT_TRUE(compiled) << pattern << ": " << compiled.error().message;
  return compiled && Takes(*compiled, text);
}

TEST(Pattern, Examples) {
  EXPECT_TRUE(Takes("^a+b?$", "aaab"));
  EXPECT_FALSE(Takes("^a+b?$", "b"));
  EXPECT_TRUE(Takes("b", "abc"));
  EXPECT_FALSE(Takes("^b", "abc"));
  EXPECT_TRUE(Takes("^(?:ab|c){2,3}$", "abcab"));
  EXPECT_FALSE(Takes("^(ab|c){2,3}$", "ab"));
  EXPECT_FALSE(Takes("^(ab|c){2,3}$", "cccc"));
  EXPECT_TRUE(Takes("^[^a-c]{3}$", "é€😀"));
  EXPECT_FALSE(Takes("^[^a-c]$", "b"));
  EXPECT_TRUE(Takes("^\\\\\"\\n$", "\\\\\\\"\\n"));
  EXPECT_TRUE(Takes("^\\u00e9[\\x41-C\\d-]$", "é-"));
  EXPECT_TRUE(Takes("^(|x)$", ""));
  EXPECT_TRUE(Takes("^a$|^b", "bc"));
  EXPECT_FALSE(Takes("^.$", "\\n"));
  EXPECT_FALSE(Takes("^[à-ü]$", "\xC3\xBF"));
}

TEST(Pattern, Refusals) {
  for (const char* bad : {"(", ")", "[a", "a{2", "a{3,2}", "*", "\\", "\\b", "\\1", "(?=a)",
                          "(?<n>a)", "a^", "$a", "[b-a]", "\\p{L}", "\\u12", "((a{60}){60}){60}"}) {
    EXPECT_FALSE(Pattern::Compile(bad, {})) << bad;
  }
  // All that fits has characters that can't be written.
  EXPECT_FALSE(Pattern::Compile("^\\x01$", BarredCharacters(TextForm::kJson))->possible());
}

TEST(Pattern, Formats) {
  const std::pair<const char*, const char*> good[] = {
      {"date-time", "2026-11-29T22:10:48.5Z"},
      {"date", "2025-02-28"},
      {"time", "23:59:59+01:00"},
      {"email", "a.b@example.org"},
      {"hostname", "a-b.example"},
      {"ipv4", "192.168.0.255"},
      {"ipv6", "2001:db8:0:0:0:0:0:1"},
      {"uuid", "123e4567-e89b-12d3-a456-426614174000"},
      {"uri", "https://example.org:80/a?b=c"},
      {"duration", "PT5M30S"}};
  for (const auto& [format, text] : good) {
    const auto pattern =
        Pattern::Compile(PatternOfFormat(format), BarredCharacters(TextForm::kJson));
    ASSERT_TRUE(pattern) << format << pattern.error().message;
    EXPECT_TRUE(Takes(*pattern, text)) << format;
    EXPECT_FALSE(Takes(*pattern, "x y")) << format;
  }
  EXPECT_FALSE(Takes(std::string(PatternOfFormat("date")).c_str(), "2025-02-30"));
  EXPECT_TRUE(PatternOfFormat("colour").empty());
}

// Random patterns over a small alphabet: what is drawn fits, by the standard library's judgement,
// and has the length asked for; what fits is taken.
TEST(Pattern, AgreesWithAnotherEngine) {
  std::mt19937 rng(3);
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  const std::function<std::string(int)> make = [&](int depth) -> std::string {
    switch (pick(depth > 0 ? 8 : 3)) {
      case 0:
        return "a";
      case 1:
        return "b";
      case 2:
        return pick(2) == 0 ? "[^b]" : "[a-c]";
      case 3:
        return "(" + make(depth - 1) + "|" + make(depth - 1) + ")";
      case 4:
        return "(" + make(depth - 1) + ")" + (pick(2) == 0 ? "*" : "?");
      case 5:
        return "(?:" + make(depth - 1) + "){" + std::to_string(pick(2)) + ",2}";
      default:
        return make(depth - 1) + make(depth - 1);
    }
  };
  int drawn = 0, taken = 0;
  for (int round = 0; round < 600; ++round) {
    const std::string text = (pick(2) ? "^" : "") + make(4) + (pick(2) ? "$" : "");
    const std::regex other(text);
    const auto pattern = Pattern::Compile(text, BarredCharacters(TextForm::kJson));
    ASSERT_TRUE(pattern) << text;
    const auto min = static_cast<uint64_t>(pick(4)), max = min + static_cast<uint64_t>(pick(6));
    const auto bounded = pattern->Bounded(min, max);
    ASSERT_TRUE(bounded) << text;
    for (int length = 0; length < 6; ++length) {
      std::string sample;
      for (int i = 0; i < length; ++i) sample += "abcd"[pick(4)];
      const bool fits = std::regex_search(sample, other);
      ASSERT_EQ(Takes(*pattern, sample), fits) << text << " on " << sample;
      const bool in = sample.size() >= min && sample.size() <= max;
      ASSERT_EQ(Takes(*bounded, sample), fits && in) << text << " on " << sample;
      taken += fits && in;
    }
    if (!bounded->possible()) continue;
    size_t bytes = 1 << 20;
    PatternRun run(*bounded, bytes);
    PatternTextState state;
    std::string sample;
    while (!run.Complete(state.set) || pick(3) > 0) {
      std::string next;
      for (char c : std::string("abcd")) {
        PatternTextState trial = state;
        if (StepPatternText(TextForm::kJson, run, trial, static_cast<uint8_t>(c)) ==
            ScanStep::Kind::kStay) {
          next += c;
        }
      }
      if (next.empty()) break;
      sample += next[rng() % next.size()];
      ASSERT_EQ(StepPatternText(TextForm::kJson, run, state, static_cast<uint8_t>(sample.back())),
                ScanStep::Kind::kStay);
    }
    ASSERT_TRUE(run.Complete(state.set)) << text << " after " << sample;
    ASSERT_TRUE(std::regex_search(sample, other)) << text << " on " << sample;
    ++drawn;
  }
  EXPECT_GT(drawn, 400);
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace slotstream::generate
