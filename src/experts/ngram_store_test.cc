#include "experts/ngram_store.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "experts/test_formats.h"

namespace slotstream::experts {
namespace {

constexpr uint64_t kRows = 1000;

struct Harness {
  explicit Harness(uint64_t cache_rows, uint32_t areas = 4, std::vector<io::Fault> faults = {})
      : format(directory, kRows) {
    auto created =
        NgramStore::Create(format, FaultyQueue(std::move(faults), 9, &backend), cache_rows, areas);
    EXPECT_TRUE(created);
    store = std::move(*created);
  }

  Status Fetch(const std::vector<uint64_t>& rows) {
    store->Begin(rows);
    SS_RETURN_IF_ERROR(store->Finish());
    ExpectRows(rows);
    return {};
  }
  void ExpectRows(const std::vector<uint64_t>& rows) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(format.Holds(store->Row(i), rows[i])) << "row " << rows[i];
    }
  }

  io::TestDirectory directory;
  TestNgrams format;
  io::FaultyBackend* backend = nullptr;
  std::unique_ptr<NgramStore> store;
};

TEST(NgramStore, RepeatedRowsAreReadOnce) {
  Harness harness(64);
  ASSERT_TRUE(harness.Fetch({5, 900, 5, 5, 17, 900}));
  NgramStats stats = harness.store->stats();
  EXPECT_EQ(stats.misses, 3u);
  EXPECT_EQ(stats.hits, 0u);
  EXPECT_EQ(stats.bytes_read, 3 * kPageSize);
  ASSERT_TRUE(harness.Fetch({17, 5, 6, 17}));
  stats = harness.store->stats();
  EXPECT_EQ(stats.misses, 4u);
  EXPECT_EQ(stats.hits, 2u);
  EXPECT_EQ(harness.backend->reads(), 4u);
}

TEST(NgramStore, NothingAskedForNothingRead) {
  Harness harness(8);
  ASSERT_TRUE(harness.store->Finish());
  ASSERT_TRUE(harness.Fetch({}));
  EXPECT_EQ(harness.backend->reads(), 0u);
}

// The cache keeps at most what it was given, whole sets, and what it forgot is right again.
TEST(NgramStore, CacheIsBounded) {
  for (const uint64_t cache_rows : {0u, 8u, 30u}) {
    SCOPED_TRACE(cache_rows);
    const uint64_t capacity = cache_rows == 30 ? 32 : 8;
    Harness harness(cache_rows);
    std::vector<uint64_t> rows(100);
    for (uint64_t i = 0; i < rows.size(); ++i) rows[i] = i * 7;
    ASSERT_TRUE(harness.Fetch(rows));
    ASSERT_TRUE(harness.Fetch(rows));
    const NgramStats stats = harness.store->stats();
    EXPECT_EQ(stats.hits + stats.misses, 2 * rows.size());
    EXPECT_LE(stats.hits, capacity);
    EXPECT_GT(stats.hits, 0u);
    // The buffer is whole pages; four areas stage a page each.
    EXPECT_EQ(harness.store->bytes(), capacity * harness.format.row_bytes() + 4 * kPageSize);
  }
}

// One set: the oldest of its 8 rows goes.
TEST(NgramStore, TheOldestGoes) {
  Harness harness(8);
  for (uint64_t row = 0; row < 8; ++row) ASSERT_TRUE(harness.Fetch({row}));
  ASSERT_TRUE(harness.Fetch({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(harness.store->stats().hits, 8u);
  ASSERT_TRUE(harness.Fetch({8}));
  ASSERT_TRUE(harness.Fetch({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(harness.store->stats().hits, 16u);
  ASSERT_TRUE(harness.Fetch({0}));
  EXPECT_EQ(harness.store->stats().hits, 16u);
}

TEST(NgramStore, ResizingForgetsAndGoesOn) {
  Harness harness(64);
  ASSERT_TRUE(harness.Fetch({1, 2, 3}));
  EXPECT_EQ(harness.store->cache_rows(), 64u);
  ASSERT_TRUE(harness.store->Resize(64));
  ASSERT_TRUE(harness.Fetch({1, 2, 3}));
  EXPECT_EQ(harness.store->stats().hits, 3u);  // nothing changed
  const uint64_t before = harness.store->bytes();
  ASSERT_TRUE(harness.store->Resize(9));
  EXPECT_EQ(harness.store->cache_rows(), 16u);
  EXPECT_EQ(before - harness.store->bytes(), 48 * harness.format.row_bytes());
  std::vector<uint64_t> rows;
  for (uint64_t row = 0; row < 100; ++row) rows.push_back(row * 7);
  ASSERT_TRUE(harness.Fetch(rows));
  EXPECT_EQ(harness.store->stats().hits, 3u);
  harness.store->Begin(std::vector<uint64_t>{500, 501});
  ASSERT_TRUE(harness.store->Resize(800));  // what was asked for is dropped
  ASSERT_TRUE(harness.Fetch(rows));
  ASSERT_TRUE(harness.Fetch(rows));
  EXPECT_GT(harness.store->stats().hits, 90u);
}

TEST(NgramStore, BeginDropsWhatWasNotFetched) {
  Harness harness(64, 2, {{io::FaultKind::kLate, 0, io::Fault::kEveryLater, 0.5}});
  harness.store->Begin(std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(harness.Fetch({300, 2, 301}));
  harness.store->Begin(std::vector<uint64_t>{8, 9});
  ASSERT_TRUE(harness.Fetch({9, 1, 8, 1}));
  // What came of the dropped reads was not taken for the rows asked for later.
  EXPECT_EQ(harness.store->stats().retries, 0u);
}

// The store goes while reads are in flight: their memory must not go before them.
TEST(NgramStore, MayGoBeforeItsRowsCame) {
  Harness harness(64, 4, {{io::FaultKind::kLate, 0, io::Fault::kEveryLater, 1.0}});
  harness.store->Begin(std::vector<uint64_t>{1, 2, 3, 4, 5, 6});
  harness.store.reset();
}

TEST(NgramStore, ABadRowIsReadOnceMore) {
  Harness harness(64);
  harness.format.failures.Fail(7, 1);
  ASSERT_TRUE(harness.Fetch({6, 7, 8}));
  EXPECT_EQ(harness.store->stats().retries, 1u);
  harness.format.failures.Fail(20, 2);
  const Status status = harness.Fetch({19, 20, 21, 7});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(harness.store->stats().retries, 2u);
  ASSERT_TRUE(harness.Fetch({19, 20, 21, 7}));
}

TEST(NgramStore, AnyRowsUnderAnyFaults) {
  std::mt19937 rng(4);
  uint64_t failures = 0;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    const bool hostile = round % 2 == 1;
    std::vector<io::Fault> faults;
    const auto add = [&](io::FaultKind kind, double probability) {
      faults.push_back({kind, 0, io::Fault::kEveryLater, probability});
    };
    if (hostile) {
      add(io::FaultKind::kStartRefused, 0.01);
      add(io::FaultKind::kZeroedPage, 0.05);
    }
    add(io::FaultKind::kShortRead, 0.1);
    add(io::FaultKind::kIoError, 0.05);
    add(io::FaultKind::kLate, 0.2);
    add(io::FaultKind::kReordered, 0.3);
    Harness harness(rng() % 100, 1 + rng() % 8, faults);
    for (int batch = 0; batch < 60; ++batch) {
      std::vector<uint64_t> rows(rng() % 30);
      // A few rows are common, as in text.
      for (uint64_t& row : rows) row = rng() % 2 == 0 ? rng() % 20 : rng() % kRows;
      if (rng() % 8 == 0) harness.store->Begin(rows);  // and never fetched
      const Status status = harness.Fetch(rows);
      if (status) continue;
      ++failures;
      EXPECT_TRUE(hostile) << status.error().message;
      EXPECT_TRUE(status.error().code == ErrorCode::kIo ||
                  status.error().code == ErrorCode::kCorrupt);
    }
    const NgramStats stats = harness.store->stats();
    EXPECT_GT(stats.hits, 0u);
    EXPECT_GT(stats.misses, 0u);
  }
  EXPECT_GT(failures, 0u);
}

}  // namespace
}  // namespace slotstream::experts
