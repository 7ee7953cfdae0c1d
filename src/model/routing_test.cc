#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "model/moe.h"

namespace slotstream::model {
namespace {

TEST(Routing, RanksByProbabilityAndTiesGoToTheLowerExpert) {
  const std::vector<float> p = {0.1f, 0.2f, 0.1f, 0.2f, 0.3f, 0.1f};
  Routing routing;
  routing.Assign({p.data(), 6}, 1, 6, 4, false);
  const uint32_t expected[] = {4, 1, 3, 0};
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(routing.expert(0, rank), expected[rank]);
    EXPECT_EQ(routing.weight(0, rank), p[expected[rank]]);
  }
}

TEST(Routing, NormalisedWeightsAreSharesOfTheChosen) {
  const std::vector<float> p = {0.5f, 0.125f, 0.25f, 0.125f};
  Routing routing;
  routing.Assign({p.data(), 4}, 1, 4, 2, true);
  EXPECT_EQ(routing.weight(0, 0), 0.5f / 0.75f);
  EXPECT_EQ(routing.weight(0, 1), 0.25f / 0.75f);
}

TEST(Routing, AllExpertsMayBeChosen) {
  const std::vector<float> p(8, 0.125f);
  Routing routing;
  routing.Assign({p.data(), 8}, 1, 8, 8, true);
  for (size_t rank = 0; rank < 8; ++rank) EXPECT_EQ(routing.expert(0, rank), rank);
}

// Few distinct probabilities, so that ties abound; rows lie apart in memory. One Routing serves
// passes of all sizes.
TEST(Routing, PlacesAndNeedsAgree) {
  std::mt19937 rng(2);
  Routing routing;
  for (int pass = 0; pass < 60; ++pass) {
    SCOPED_TRACE(pass);
    const size_t rows = 1 + rng() % 40;
    const size_t experts = 2 + rng() % 30;
    const size_t top_k = 1 + rng() % experts;
    const size_t stride = experts + rng() % 3;
    std::vector<float> p(rows * stride);
    for (float& value : p) value = static_cast<float>(1 + rng() % 5) / 64;
    routing.Assign({p.data(), stride}, rows, experts, top_k, pass % 2 == 0);

    std::vector<uint32_t> rows_of(experts, 0);
    for (size_t r = 0; r < rows; ++r) {
      // The k best by a full stable sort.
      std::vector<uint32_t> order(experts);
      for (uint32_t e = 0; e < experts; ++e) order[e] = e;
      const float* row = p.data() + r * stride;
      std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return row[a] > row[b]; });
      for (size_t rank = 0; rank < top_k; ++rank) {
        ASSERT_EQ(routing.expert(r, rank), order[rank]);
        ++rows_of[order[rank]];
      }
    }

    std::set<uint32_t> places;
    uint32_t before = 0;
    ASSERT_EQ(routing.needs().size(),
              experts - static_cast<size_t>(std::ranges::count(rows_of, 0u)));
    for (size_t need = 0; need < routing.needs().size(); ++need) {
      const auto [expert, count] = routing.needs()[need];
      ASSERT_TRUE(need == 0 || before < expert);
      before = expert;
      ASSERT_EQ(count, rows_of[expert]);
      ASSERT_EQ(routing.rows(need).size(), count);
      for (size_t i = 0; i < count; ++i) {
        const uint32_t r = routing.rows(need)[i];
        ASSERT_TRUE(i == 0 || routing.rows(need)[i - 1] < r);
        // The row's own view of its place.
        bool found = false;
        for (size_t rank = 0; rank < top_k; ++rank) {
          if (routing.expert(r, rank) != expert) continue;
          ASSERT_EQ(routing.place(r, rank), routing.place(need) + i);
          ASSERT_TRUE(places.insert(routing.place(r, rank)).second);
          found = true;
        }
        ASSERT_TRUE(found);
      }
    }
    ASSERT_EQ(places.size(), rows * top_k);
    EXPECT_EQ(*places.rbegin(), rows * top_k - 1);
  }
}

}  // namespace
}  // namespace slotstream::model
