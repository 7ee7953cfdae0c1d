#include "text/think_splitter.h"

#include <gtest/gtest.h>

#include <random>

namespace slotstream::text {
namespace {

// Pushes `text` in pieces of random length; returns "reasoning|content".
std::string Split(std::string_view text, std::mt19937& rng) {
  ThinkSplitter splitter;
  std::string reasoning, content;
  auto add = [&](const ThinkSplitter::Delta& delta) {
    reasoning += delta.reasoning;
    content += delta.content;
  };
  while (!text.empty()) {
    const size_t n = std::min<size_t>(rng() % 9 + 1, text.size());
    add(splitter.Push(text.substr(0, n)));
    text.remove_prefix(n);
  }
  add(splitter.Flush());
  return reasoning + "|" + content;
}

TEST(ThinkSplitter, SplitsHoweverTheTextIsCut) {
  std::mt19937 rng(1);
  const std::pair<const char*, const char*> cases[] = {
      {"so\n</think>\n\nanswer\n", "so\n|answer\n"},
      {"a </thin </think></think>b", "a </thin |</think>b"},
      {"never closed </thi", "never closed </thi|"},
      {"</think>", "|"},
      {"x<</think>\n\n\n \ny", "x<| \ny"},
      {"", "|"},
  };
  for (const auto& [text, expected] : cases) {
    for (int round = 0; round < 50; ++round) EXPECT_EQ(Split(text, rng), expected);
  }
}

TEST(ThinkSplitter, HoldsOnlyAPossibleTag) {
  ThinkSplitter splitter;
  EXPECT_EQ(splitter.Push("abc").reasoning, "abc");
  EXPECT_EQ(splitter.Push("d</th").reasoning, "d");
  EXPECT_EQ(splitter.Push("e").reasoning, "</the");
  EXPECT_FALSE(splitter.closed());
  EXPECT_EQ(splitter.Push("</think>\n").content, "");
  EXPECT_TRUE(splitter.closed());
  EXPECT_EQ(splitter.Push("\nx\n").content, "x\n");
  EXPECT_EQ(splitter.Push("\ny").content, "\ny");
}

}  // namespace
}  // namespace slotstream::text
