#include "state/row_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace slotstream::state {
namespace {

constexpr size_t kBlock = RowBlocks::kRowsPerBlock;

TEST(RowBlocks, RowsStayWhereTheyAre) {
  constexpr size_t kWidth = 3;
  RowBlocks rows(kWidth);
  EXPECT_EQ(rows.bytes(), 0u);
  std::vector<const float*> places;
  for (size_t i = 0; i < 3 * kBlock + 1; ++i) {
    ASSERT_EQ(rows.size(), i);
    float* row = rows.Append();
    for (size_t c = 0; c < kWidth; ++c) row[c] = static_cast<float>(i * kWidth + c);
    places.push_back(row);
    ASSERT_EQ(rows.blocks(), i / kBlock + 1);
    ASSERT_EQ(rows.bytes(), rows.blocks() * kBlock * kWidth * sizeof(float));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows.row(i), places[i]);
    for (size_t c = 0; c < kWidth; ++c) {
      ASSERT_EQ(rows.row(i)[c], static_cast<float>(i * kWidth + c));
    }
  }
}

TEST(RowBlocks, TheFirstToAppendGoesOnInPlace) {
  RowBlocks rows(2);
  for (size_t i = 0; i < 10; ++i) std::fill_n(rows.Append(), 2, static_cast<float>(i));
  RowBlocks copy(rows);
  EXPECT_EQ(copy.block(0), rows.block(0));
  std::fill_n(rows.Append(), 2, -1.0f);
  EXPECT_EQ(copy.block(0), rows.block(0));
  std::fill_n(copy.Append(), 2, -2.0f);
  EXPECT_NE(copy.block(0), rows.block(0));
  EXPECT_EQ(rows.row(10)[1], -1.0f);
  EXPECT_EQ(copy.row(10)[1], -2.0f);
  for (size_t i = 0; i < 10; ++i) ASSERT_EQ(copy.row(i)[0], static_cast<float>(i));
}

TEST(RowBlocks, AFirstPartGoesItsOwnWay) {
  RowBlocks rows(1);
  for (size_t i = 0; i < 2 * kBlock + 3; ++i) *rows.Append() = static_cast<float>(i);
  for (const size_t cut : {size_t{0}, size_t{1}, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock + 3}) {
    SCOPED_TRACE(cut);
    RowBlocks first = rows.First(cut);
    ASSERT_EQ(first.size(), cut);
    EXPECT_EQ(first.blocks(), (cut + kBlock - 1) / kBlock);
    for (size_t i = 0; i < kBlock; ++i) *first.Append() = -1;
    for (size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(*first.row(i), i < cut ? static_cast<float>(i) : -1);
    }
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(*rows.row(i), static_cast<float>(i));
  }
}

// Lists that fork from each other at random hold what lists without sharing would.
TEST(RowBlocks, ForksEqualPlainLists) {
  std::mt19937 rng(7);
  std::vector<RowBlocks> lists(1, RowBlocks(1));
  std::vector<std::vector<float>> plain(1);
  float next = 0;
  for (int step = 0; step < 3000; ++step) {
    const size_t i = rng() % lists.size();
    if (rng() % 8 == 0) {
      const size_t cut = rng() % 2 == 0 ? plain[i].size() : rng() % (plain[i].size() + 1);
      lists.push_back(lists[i].First(cut));
      plain.emplace_back(plain[i].begin(), plain[i].begin() + static_cast<ptrdiff_t>(cut));
      if (lists.size() > 6) {
        const auto victim = static_cast<ptrdiff_t>(rng() % lists.size());
        lists.erase(lists.begin() + victim);
        plain.erase(plain.begin() + victim);
      }
      continue;
    }
    for (size_t rows = rng() % 100; rows > 0; --rows) {
      *lists[i].Append() = next;
      plain[i].push_back(next++);
    }
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    ASSERT_EQ(lists[i].size(), plain[i].size());
    for (size_t r = 0; r < plain[i].size(); ++r) ASSERT_EQ(*lists[i].row(r), plain[i][r]);
  }
}

}  // namespace
}  // namespace slotstream::state
