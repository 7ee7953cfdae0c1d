#include "experts/timed_choice.h"

#include <gtest/gtest.h>

#include <random>

namespace slotstream::experts {
namespace {

// `tokens` tokens that take `with` or `without`, give or take a tenth and one in ten thrice as
// long. Returns the share that went with it.
double Tokens(TimedChoice& choice, int tokens, uint64_t with, uint64_t without, std::mt19937& rng) {
  int used = 0;
  for (int token = 0; token < tokens; ++token) {
    const uint64_t mean = choice.use() ? with : without;
    used += choice.use() ? 1 : 0;
    uint64_t nanos = mean * (90 + rng() % 21) / 100;
    if (rng() % 10 == 0) nanos *= 3;
    choice.Record(nanos);
  }
  return static_cast<double>(used) / tokens;
}

TEST(TimedChoice, TakesTheFasterWay) {
  std::mt19937 rng(5);
  TimedChoice faster;
  EXPECT_GT(Tokens(faster, 2000, 900, 1100, rng), 0.9);
  TimedChoice slower;
  EXPECT_LT(Tokens(slower, 2000, 1100, 900, rng), 0.1);
}

TEST(TimedChoice, ChangesItsMind) {
  std::mt19937 rng(6);
  TimedChoice choice;
  Tokens(choice, 1000, 1200, 1000, rng);
  EXPECT_LT(Tokens(choice, 200, 1200, 1000, rng), 0.2);
  EXPECT_GT(Tokens(choice, 1000, 800, 1000, rng), 0.7);
}

TEST(TimedChoice, TriesBothWaysInTurn) {
  TimedChoice choice;
  for (uint32_t token = 0; token < 2 * TimedChoice::kTrial; ++token) {
    EXPECT_EQ(choice.use(), token % 2 == 0);
    choice.Record(choice.use() ? 2 : 1);
  }
  for (uint32_t token = 0; token < TimedChoice::kBetween; ++token) {
    EXPECT_FALSE(choice.use());
    choice.Record(1);
  }
  EXPECT_TRUE(choice.use());
}

}  // namespace
}  // namespace slotstream::experts
