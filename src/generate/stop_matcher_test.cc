#include "generate/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace slotstream::generate {
namespace {

TEST(StopMatcher, StopsAcrossPieces) {
  StopMatcher matcher({"", "END", "\n\n"});
  EXPECT_EQ(matcher.Push("a\n"), "a");
  EXPECT_EQ(matcher.Push("b E"), "\nb ");
  EXPECT_EQ(matcher.Push("N"), "");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.Push("E"), "EN");
  EXPECT_EQ(matcher.Push("ND rest"), "");
  EXPECT_EQ(matcher.matched(), "END");
  EXPECT_EQ(matcher.Push("more"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, HeldTextComesAtTheEnd) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("nonsto"), "non");
  EXPECT_EQ(matcher.Flush(), "sto");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, FirstCompleteWinsThenLongest) {
  StopMatcher inner({"abcd", "bc"});
  EXPECT_EQ(inner.Push("xabcd"), "xa");
  EXPECT_EQ(inner.matched(), "bc");
  StopMatcher together({"c", "abc"});
  EXPECT_EQ(together.Push("xabc"), "x");
  EXPECT_EQ(together.matched(), "abc");
}

TEST(StopMatcher, NoStops) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.Push("text"), "text");
}

// Against a search of the whole text, for random texts over a small alphabet and all cuts.
TEST(StopMatcher, AgreesWithASearchOfTheWhole) {
  std::mt19937 rng(4);
  auto random_text = [&](size_t longest) {
    std::string text;
    for (size_t n = rng() % longest + 1; n > 0; --n) text += "ab"[rng() % 2];
    return text;
  };
  int matches = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (unsigned n = rng() % 3 + 1; n > 0; --n) stops.push_back(random_text(6));
    const std::string text = random_text(30);
    std::string expected = text, stop;
    for (size_t end = 1; end <= text.size() && stop.empty(); ++end) {
      for (const std::string& s : stops) {
        if (s.size() > stop.size() && text.substr(0, end).ends_with(s)) stop = s;
      }
      if (!stop.empty()) expected = text.substr(0, end - stop.size());
    }
    StopMatcher matcher(stops);
    std::string delivered;
    for (size_t at = 0; at < text.size();) {
      const size_t n = rng() % 5 + 1;
      delivered += matcher.Push(std::string_view(text).substr(at, n));
      ASSERT_TRUE(expected.starts_with(delivered));
      at += n;
    }
    delivered += matcher.Flush();
    ASSERT_EQ(delivered, expected);
    ASSERT_EQ(matcher.matched().value_or(""), stop);
    matches += matcher.matched().has_value();
  }
  EXPECT_GT(matches, 500);
}

}  // namespace
}  // namespace slotstream::generate
