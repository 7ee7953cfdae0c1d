#include "experts/look_ahead.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "experts/clock_policy.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kLayers = 3, kExperts = 64, kSlots = 16;

struct Harness {
  Harness()
      : pool(SlotPool::Create(kSlots, 0, kLayers, kExperts, std::make_unique<ClockPolicy>(kSlots))
                 .value()),
        look_ahead(kLayers) {}

  // A token's guess for `layer` is experts [0, 8); `right` says which of them it then needs.
  template <typename Right>
  void Token(uint32_t layer, const Right& right) {
    due = look_ahead.Due(layer);
    if (!due) return;
    std::vector<uint32_t> ranked(8);
    std::iota(ranked.begin(), ranked.end(), 0u);
    const auto span = look_ahead.Choose(layer, ranked, pool);
    chosen.assign(span.begin(), span.end());
    std::vector<ExpertNeed> needs = {{50, 1}};
    for (uint32_t expert : ranked) {
      if (right(expert)) needs.push_back({expert, 1});
    }
    look_ahead.Judge(layer, needs);
  }

  SlotPool pool;
  LookAhead look_ahead;
  bool due = false;
  std::vector<uint32_t> chosen;
};

TEST(LookAhead, ReadsFromPlacesThatAreOftenRight) {
  Harness harness;
  std::mt19937 rng(3);
  for (int token = 0; token < 200; ++token) {
    // The likelier, the more often right: place 0 in 9 of 10, place 7 in 2 of 10.
    harness.Token(1, [&](uint32_t expert) { return rng() % 10 < 9 - expert; });
    if (token < 5) {
      EXPECT_TRUE(harness.chosen.empty()) << "before anything was learnt";
    }
  }
  EXPECT_TRUE(harness.due);
  EXPECT_GE(harness.chosen.size(), 4u);
  EXPECT_LE(harness.chosen.size(), 6u);
  EXPECT_EQ(harness.chosen.front(), 0u);
  const LookAheadStats& stats = harness.look_ahead.stats();
  EXPECT_EQ(stats.guesses, 1600u);
  EXPECT_NEAR(static_cast<double>(stats.right), 200 * 4.4, 100);
  EXPECT_LT(stats.read, stats.guesses);
}

TEST(LookAhead, ResidentExpertsAreNoGuesses) {
  Harness harness;
  const std::vector<ExpertKey> keys = {{1, 0}, {1, 3}};
  const std::vector<uint32_t> claimed = harness.pool.Claim(keys).value();
  for (uint32_t slot : claimed) harness.pool.Publish(slot);
  for (int token = 0; token < 50; ++token) harness.Token(1, [](uint32_t) { return true; });
  EXPECT_EQ(harness.chosen, (std::vector<uint32_t>{1, 2, 4, 5, 6, 7}));
}

TEST(LookAhead, SwitchesItselfOffAndOnAgain) {
  Harness harness;
  int due = 0;
  for (int token = 0; token < 800; ++token) {
    harness.Token(2, [](uint32_t) { return false; });
    due += harness.due ? 1 : 0;
  }
  EXPECT_TRUE(harness.chosen.empty());
  EXPECT_LT(due, 800 / 8 + 10);
  // Another layer's record is its own.
  EXPECT_TRUE(harness.look_ahead.Due(0));
  for (int token = 0; token < 800; ++token) harness.Token(2, [](uint32_t) { return true; });
  EXPECT_TRUE(harness.due);
  EXPECT_EQ(harness.chosen.size(), 8u);
}

TEST(LookAhead, LearnsNothingWithoutGuesses) {
  Harness harness;
  const std::vector<ExpertNeed> needs = {{1, 1}};
  for (int token = 0; token < 50; ++token) harness.look_ahead.Judge(1, needs);
  EXPECT_EQ(harness.look_ahead.stats().right, 0u);
  harness.Token(1, [](uint32_t) { return true; });
  EXPECT_TRUE(harness.chosen.empty());
}

}  // namespace
}  // namespace slotstream::experts
