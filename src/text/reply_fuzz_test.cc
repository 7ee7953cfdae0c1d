// Replies no model should write: seeded mixtures of tags and texts, whole and in pieces.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/test_replies.h"

namespace slotstream::text {
namespace {

TEST(ReplyFuzz, MixedTags) {
  std::mt19937 random(3);
  int calls = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (size_t words = random() % 24; words > 0; --words) {
      text += ReplyWords()[random() % ReplyWords().size()];
    }
    std::vector<uint8_t> cuts(1 + random() % 5);
    for (uint8_t& cut : cuts) cut = static_cast<uint8_t>(random() % 12);
    ASSERT_EQ(FaultOfReply(text, cuts), "") << text;
    std::string fault;
    calls += SeeReply(text, {}, ToolSchemas(), fault).calls.empty() ? 0 : 1;
  }
  EXPECT_GT(calls, 100) << "mixtures without a call prove nothing";
}

}  // namespace
}  // namespace slotstream::text
