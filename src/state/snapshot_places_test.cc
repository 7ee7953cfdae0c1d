#include "state/snapshot_places.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace slotstream::state {
namespace {

using Places = std::vector<size_t>;

TEST(SnapshotPlaces, OneBeforeTheEndComesFirst) {
  const Places shared = {1000}, turns = {1000, 1500};
  const PromptShape prompt{
      .begin = 0, .end = 1504, .common = 700, .shared_ends = shared, .turn_ends = turns};
  EXPECT_EQ(PlaceSnapshots(prompt, {.most = 0}), Places());
  EXPECT_EQ(PlaceSnapshots(prompt, {.most = 1}), Places({1503}));
  EXPECT_EQ(PlaceSnapshots(prompt, {.most = 2}), Places({700, 1503}));
  EXPECT_EQ(PlaceSnapshots(prompt, {.most = 9}), Places({700, 1000, 1503}));
}

TEST(SnapshotPlaces, AMarginIsKept) {
  const Places shared = {1000};
  EXPECT_EQ(PlaceSnapshots(
                {.begin = 960, .end = 1100, .common = 990, .shared_ends = shared, .turn_ends = {}},
                {.most = 9}),
            Places({1099}));
  // What is read already has its state.
  EXPECT_EQ(
      PlaceSnapshots(
          {.begin = 1000, .end = 1001, .common = 1000, .shared_ends = shared, .turn_ends = {}},
          {.most = 9}),
      Places());
  EXPECT_EQ(
      PlaceSnapshots(
          {.begin = 1000, .end = 1002, .common = 1000, .shared_ends = shared, .turn_ends = {}},
          {.most = 9}),
      Places({1001}));
}

TEST(SnapshotPlaces, LongPartsHaveSome) {
  EXPECT_EQ(PlaceSnapshots(
                {.begin = 3000, .end = 13'000, .common = 0, .shared_ends = {}, .turn_ends = {}},
                {.most = 9}),
            Places({4096, 8192, 12288, 12999}));
}

TEST(SnapshotPlaces, TheLastTurnsBeginningBeforeTheOthers) {
  const Places turns = {500, 900, 1300, 1700};
  EXPECT_EQ(
      PlaceSnapshots({.begin = 0, .end = 1705, .common = 0, .shared_ends = {}, .turn_ends = turns},
                     {.most = 3}),
      Places({900, 1300, 1704}));
}

TEST(SnapshotPlaces, AreAlwaysInOrderAndWithinThePrompt) {
  std::mt19937 rng(3);
  for (int round = 0; round < 20'000; ++round) {
    const size_t end = 1 + rng() % 20'000;
    Places shared, turns;
    for (size_t at = 0; at < end && rng() % 8 > 0; at += 1 + rng() % 2000) turns.push_back(at);
    for (size_t i = rng() % 3; i > 0; --i) shared.push_back(rng() % (2 * end));
    const PromptShape prompt{.begin = rng() % end,
                             .end = end,
                             .common = rng() % (end + 1),
                             .shared_ends = shared,
                             .turn_ends = turns};
    const SnapshotLimits limits{.most = rng() % 10};
    const Places places = PlaceSnapshots(prompt, limits);
    ASSERT_LE(places.size(), limits.most);
    for (size_t i = 0; i < places.size(); ++i) {
      ASSERT_GT(places[i], i == 0 ? prompt.begin : places[i - 1]);
      ASSERT_LT(places[i], end);
    }
    if (limits.most > 0 && end > prompt.begin + 1) {
      ASSERT_EQ(places.back(), end - 1);
    }
  }
}

}  // namespace
}  // namespace slotstream::state
