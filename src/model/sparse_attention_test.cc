#include "model/sparse_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace slotstream::model {
namespace {

// The definition: sort all blocks, the lower one first of equals, and keep the best.
std::vector<uint32_t> BestBlocks(const std::vector<float>& scores, size_t top) {
  std::vector<uint32_t> order(scores.size());
  for (uint32_t b = 0; b < order.size(); ++b) order[b] = b;
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(top, order.size()));
  std::ranges::sort(order);
  return order;
}

TEST(SelectBlocks, TheLowerOfEquals) {
  const std::vector<float> scores = {0, 1, 0, 1, 0, 1};
  std::vector<uint32_t> order = {99};
  SelectBlocks(scores.data(), scores.size(), 2, order);
  EXPECT_EQ(order, (std::vector<uint32_t>{1, 3}));
  SelectBlocks(scores.data(), scores.size(), 4, order);
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 3, 5}));
}

// relu makes many exact zeros, of both signs.
TEST(SelectBlocks, EqualsAFullSort) {
  std::mt19937 rng(3);
  std::vector<uint32_t> order;
  for (int round = 0; round < 400; ++round) {
    std::vector<float> scores(rng() % 300);
    const uint32_t kinds = 1 + rng() % 6;
    for (float& score : scores) {
      score = static_cast<float>(rng() % kinds) * 0.25f;
      if (score == 0 && rng() % 2 == 0) score = -0.0f;
    }
    const size_t top = rng() % 320;
    SelectBlocks(scores.data(), scores.size(), top, order);
    ASSERT_EQ(order, BestBlocks(scores, top)) << scores.size() << " blocks, top " << top;
  }
}

}  // namespace
}  // namespace slotstream::model
