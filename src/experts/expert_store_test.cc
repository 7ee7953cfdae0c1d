#include "experts/expert_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "experts/test_formats.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kLayers = 3;
constexpr uint32_t kExperts = 20;
constexpr uint32_t kSweepRows = 10;
constexpr uint32_t kSlots = 6;

struct Harness {
  explicit Harness(bool staged, std::vector<io::Fault> faults = {}, uint32_t slots = kSlots,
                   uint32_t sweep_records = 4)
      : format(directory, kLayers, kExperts, staged) {
    auto created = ExpertStore::Create(format, FaultyQueue(std::move(faults), 3, &backend),
                                       {.layers = kLayers,
                                        .slots = slots,
                                        .sweep_records = sweep_records,
                                        .sweep_rows = kSweepRows},
                                       Clock::Steady());
    EXPECT_TRUE(created);
    store = std::move(*created);
  }

  // A whole visit: every need comes once, with its bytes, which stay while they are held. Stops at
  // the store's error.
  Status Visit(uint32_t layer, const std::vector<ExpertNeed>& needs, uint32_t rows,
               bool admit = false) {
    delivered.clear();
    format.asked.clear();
    SS_RETURN_IF_ERROR(store->Begin(layer, needs, rows, admit));
    if (expect_sweep_of) store->Expect(*expect_sweep_of, All(), 8);
    if (expect) store->Expect((layer + 1) % kLayers, *expect, 2);
    std::vector<ReadyExpert> ready;
    for (;;) {
      SS_RETURN_IF_ERROR(store->Next(ready));
      if (ready.empty()) break;
      for (const ReadyExpert& expert : ready) delivered.push_back(expert.need);
      for (const ReadyExpert& expert : ready) {
        EXPECT_TRUE(format.Holds(expert.record, layer, needs[expert.need].expert))
            << "need " << expert.need;
      }
    }
    std::vector<uint32_t> sorted = delivered;
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted.size(), needs.size());
    for (uint32_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], i);
    return {};
  }

  // Until so many records were read, all visits included.
  void WaitForReads(uint64_t records) {
    while (store->stats().reads < records) std::this_thread::yield();
  }

  static std::vector<uint32_t> All() {
    std::vector<uint32_t> experts(kExperts);
    std::iota(experts.begin(), experts.end(), 0u);
    return experts;
  }

  std::set<uint32_t> Resident(uint32_t layer) const {
    std::set<uint32_t> experts;
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      if (store->pool().Find({layer, expert}) >= 0) experts.insert(expert);
    }
    return experts;
  }
  std::vector<std::set<uint32_t>> AllResident() const {
    return {Resident(0), Resident(1), Resident(2)};
  }

  // No slot names bytes that it does not hold.
  void ExpectPoolIsRight() const {
    uint32_t held = 0;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (uint32_t expert : Resident(layer)) {
        const auto slot = static_cast<uint32_t>(store->pool().Find({layer, expert}));
        EXPECT_TRUE(format.Holds(store->pool().data(slot), layer, expert))
            << "layer " << layer << " expert " << expert;
        ++held;
      }
    }
    EXPECT_EQ(store->pool().held(), held);
    EXPECT_LE(held, store->pool().slots());
  }

  void ExpectSnapshotIsRight() const {
    const PoolSnapshot snapshot = store->Snapshot();
    EXPECT_EQ(snapshot.slots, store->pool().slots());
    EXPECT_EQ(snapshot.held, store->pool().held());
    ASSERT_EQ(snapshot.layers.size(), kLayers);
    ASSERT_EQ(snapshot.resident.size(), kLayers * kExperts);
    LayerCounts sum;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      sum.hits += snapshot.layers[layer].hits;
      sum.misses += snapshot.layers[layer].misses;
      sum.swept += snapshot.layers[layer].swept;
      for (uint32_t expert = 0; expert < kExperts; ++expert) {
        EXPECT_EQ(snapshot.resident[layer * kExperts + expert], Resident(layer).contains(expert));
      }
    }
    EXPECT_EQ(sum.hits, store->stats().hits);
    EXPECT_EQ(sum.misses, store->stats().misses);
    EXPECT_EQ(sum.swept, store->stats().swept);
  }

  // Nothing is pinned or claimed: a visit that fills every slot anew has room.
  void ExpectNoPins() {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      std::vector<ExpertNeed> needs;
      const std::set<uint32_t> resident = Resident(layer);
      for (uint32_t expert = 0; expert < kExperts && needs.size() < store->pool().slots();
           ++expert) {
        if (!resident.contains(expert)) needs.push_back({expert, 1});
      }
      if (needs.size() < store->pool().slots()) continue;
      ASSERT_TRUE(store->Begin(layer, needs, 1, false));
      store->End();
      return;
    }
    FAIL() << "no layer misses as many experts as there are slots";
  }

  io::TestDirectory directory;
  TestExperts format;
  io::FaultyBackend* backend = nullptr;
  std::unique_ptr<ExpertStore> store;
  std::vector<uint32_t> delivered;  // needs, in the order of delivery
  // Told the store at the beginning of each visit.
  std::optional<uint32_t> expect_sweep_of;
  std::optional<std::vector<uint32_t>> expect;
};

std::vector<ExpertNeed> Needs(std::initializer_list<uint32_t> experts) {
  std::vector<ExpertNeed> needs;
  for (uint32_t expert : experts) needs.push_back({expert, 1});
  return needs;
}
std::vector<ExpertNeed> AllNeeds() {
  std::vector<ExpertNeed> needs;
  for (uint32_t expert = 0; expert < kExperts; ++expert) needs.push_back({expert, expert + 1});
  return needs;
}

class ExpertStoreTest : public ::testing::TestWithParam<bool> {};

TEST_P(ExpertStoreTest, HitsComeFirstAndMissesAreReadInFileOrder) {
  for (const uint32_t rows : {1u, kSweepRows}) {
    SCOPED_TRACE(rows);
    Harness harness(GetParam());
    ASSERT_TRUE(harness.Visit(1, Needs({3, 7}), 1));
    ASSERT_TRUE(harness.Visit(1, Needs({1, 3, 5, 7, 9}), rows));
    ASSERT_EQ(harness.delivered.size(), 5u);
    EXPECT_EQ((std::set(harness.delivered.begin(), harness.delivered.begin() + 2)),
              (std::set<uint32_t>{1, 3}));
    EXPECT_EQ(harness.format.asked, (std::vector<ExpertKey>{{1, 9}, {1, 5}, {1, 1}}));
  }
}

TEST_P(ExpertStoreTest, CountsWhatItDoes) {
  Harness harness(GetParam());
  ASSERT_TRUE(harness.Visit(0, Needs({0, 1, 2, 3}), 1));
  ASSERT_TRUE(harness.Visit(0, Needs({2, 3, 4, 5}), 1));
  ASSERT_TRUE(harness.Visit(1, Needs({0, 1}), 1));
  ASSERT_TRUE(harness.Visit(1, AllNeeds(), kSweepRows));
  const StoreStats stats = harness.store->stats();
  EXPECT_EQ(stats.hits, 2u + 2u);
  EXPECT_EQ(stats.misses, 4u + 2u + 2u);
  EXPECT_EQ(stats.swept, kExperts - 2u);
  EXPECT_EQ(stats.evictions, 2u);
  EXPECT_EQ(stats.retries, 0u);
  EXPECT_EQ(stats.bytes_read, (stats.misses + stats.swept) * harness.format.shape().record_bytes());
  const uint64_t record = harness.format.shape().record_bytes();
  EXPECT_EQ(harness.store->bytes(), (kSlots + 4) * record + 4 * harness.format.staging_bytes());
}

TEST_P(ExpertStoreTest, MoreNeedsThanSlots) {
  Harness harness(GetParam());
  ASSERT_TRUE(harness.Visit(2, AllNeeds(), 1));
  EXPECT_EQ(harness.store->pool().held(), kSlots);
  // Now every slot holds an expert of this layer, and others are needed too.
  const Status again = harness.Visit(2, AllNeeds(), 1);
  ASSERT_TRUE(again) << again.error().message;
  harness.ExpectPoolIsRight();
  harness.ExpectNoPins();
}

TEST_P(ExpertStoreTest, EverythingResidentReadsNothing) {
  Harness harness(GetParam(), {}, kLayers * kExperts);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    ASSERT_TRUE(harness.Visit(layer, AllNeeds(), 1));
  }
  EXPECT_TRUE(harness.store->pool().holds_everything());
  const uint64_t reads = harness.backend->reads();
  for (const uint32_t rows : {1u, kSweepRows}) {
    ASSERT_TRUE(harness.Visit(1, AllNeeds(), rows, true));
    EXPECT_TRUE(harness.format.asked.empty());
  }
  EXPECT_EQ(harness.backend->reads(), reads);
}

TEST_P(ExpertStoreTest, SweepLeavesThePoolAsItIs) {
  Harness harness(GetParam());
  ASSERT_TRUE(harness.Visit(0, Needs({1, 2, 3}), 1));
  ASSERT_TRUE(harness.Visit(1, Needs({4, 5, 6}), 1));
  const auto before = harness.AllResident();
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    ASSERT_TRUE(harness.Visit(layer, AllNeeds(), kSweepRows));
  }
  EXPECT_EQ(harness.AllResident(), before);
  EXPECT_EQ(harness.store->stats().evictions, 0u);
  harness.ExpectPoolIsRight();
}

TEST_P(ExpertStoreTest, SweepAdmitsTheHottestUpToTheShare) {
  Harness harness(GetParam());
  constexpr uint32_t kShare = kSlots / kLayers;
  ASSERT_TRUE(harness.Visit(0, AllNeeds(), kSweepRows, /*admit=*/true));
  EXPECT_EQ(harness.Resident(0), (std::set<uint32_t>{kExperts - 2, kExperts - 1}));
  // One resident expert counts: one more comes.
  ASSERT_TRUE(harness.Visit(1, Needs({4}), 1));
  ASSERT_TRUE(harness.Visit(1, AllNeeds(), kSweepRows, true));
  EXPECT_EQ(harness.Resident(1), (std::set<uint32_t>{4, kExperts - 1}));
  EXPECT_EQ(harness.Resident(0).size(), kShare);
  ASSERT_TRUE(harness.Visit(1, AllNeeds(), kSweepRows, true));
  EXPECT_EQ(harness.Resident(1).size(), kShare);
  // More than its share is there already: nothing comes.
  ASSERT_TRUE(harness.Visit(2, Needs({5, 6, 7}), 1));
  ASSERT_TRUE(harness.Visit(2, AllNeeds(), kSweepRows, true));
  EXPECT_EQ(harness.Resident(2), (std::set<uint32_t>{5, 6, 7}));
  harness.ExpectPoolIsRight();
  harness.ExpectNoPins();
}

TEST_P(ExpertStoreTest, ACorruptRecordIsReadOnceMore) {
  for (const uint32_t rows : {1u, kSweepRows}) {
    SCOPED_TRACE(rows);
    Harness harness(GetParam());
    harness.format.failures.Fail(harness.format.Name(1, 7), 1);
    ASSERT_TRUE(harness.Visit(1, Needs({2, 7, 11}), rows));
    EXPECT_EQ(harness.store->stats().retries, 1u);

    harness.format.failures.Fail(harness.format.Name(1, 8), 2);
    const Status status = harness.Visit(1, Needs({8, 9, 10}), rows);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(harness.store->stats().retries, 2u);
    EXPECT_EQ(harness.store->pool().Find({1, 8}), -1);
    harness.ExpectPoolIsRight();
    harness.ExpectNoPins();
    ASSERT_TRUE(harness.Visit(1, Needs({8, 9, 10}), rows));
  }
}

TEST_P(ExpertStoreTest, AFailedVisitIsOver) {
  for (const uint32_t rows : {1u, kSweepRows}) {
    Harness harness(GetParam(), {{io::FaultKind::kStartRefused, 0, 1}});
    ASSERT_FALSE(harness.Visit(0, AllNeeds(), rows));
    std::vector<ReadyExpert> ready(1);
    ASSERT_TRUE(harness.store->Next(ready));
    EXPECT_TRUE(ready.empty());
    harness.store->End();
    EXPECT_TRUE(harness.Visit(0, AllNeeds(), rows));
  }
}

// After each number of batches, with reads in flight that write late.
TEST_P(ExpertStoreTest, EndMayComeEarly) {
  for (const uint32_t rows : {1u, kSweepRows}) {
    for (const bool admit : {false, true}) {
      for (int batches = 0; batches < 4; ++batches) {
        SCOPED_TRACE(::testing::Message() << "rows " << rows << " batches " << batches);
        Harness harness(GetParam(), {{io::FaultKind::kLate, 0, io::Fault::kEveryLater, 0.5}});
        ASSERT_TRUE(harness.Visit(0, Needs({0, 1}), 1));
        const std::vector<ExpertNeed> needs = AllNeeds();
        ASSERT_TRUE(harness.store->Begin(0, needs, rows, admit));
        std::vector<ReadyExpert> ready;
        for (int i = 0; i < batches; ++i) ASSERT_TRUE(harness.store->Next(ready));
        harness.store->End();
        harness.store->End();
        harness.ExpectPoolIsRight();
        harness.ExpectNoPins();
        ASSERT_TRUE(harness.Visit(0, needs, rows, admit));
        harness.ExpectPoolIsRight();
      }
    }
  }
}

// The store goes while reads are in flight: their memory must not go before them.
TEST_P(ExpertStoreTest, MayGoInTheMiddleOfAVisit) {
  for (const uint32_t rows : {1u, kSweepRows}) {
    Harness harness(GetParam(), {{io::FaultKind::kLate, 0, io::Fault::kEveryLater, 1.0}});
    const std::vector<ExpertNeed> needs = AllNeeds();
    ASSERT_TRUE(harness.store->Begin(0, needs, rows, false));
    harness.store.reset();
  }
}

TEST_P(ExpertStoreTest, AnyVisitsUnderAnyFaults) {
  std::mt19937 rng(11);
  uint64_t failures = 0, visits = 0;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const bool hostile = round % 3 != 0;
    std::vector<io::Fault> faults;
    const auto add = [&](io::FaultKind kind, double probability) {
      faults.push_back({kind, 0, io::Fault::kEveryLater, probability});
    };
    if (hostile) {
      add(io::FaultKind::kFlippedBit, 0.01);
      add(io::FaultKind::kZeroedPage, 0.02);
      add(io::FaultKind::kStartRefused, 0.02);
    }
    add(io::FaultKind::kShortRead, 0.1);
    add(io::FaultKind::kIoError, 0.02);
    add(io::FaultKind::kLate, 0.2);
    add(io::FaultKind::kReordered, 0.3);
    const uint32_t slots = 1 + rng() % 16;
    const uint32_t ring = 2 + rng() % 6;
    Harness harness(GetParam(), faults, slots, ring);
    for (int visit = 0; visit < 25; ++visit) {
      std::vector<ExpertNeed> needs = AllNeeds();
      for (ExpertNeed& need : needs) need.rows = 1 + rng() % 4;
      std::ranges::shuffle(needs, rng);
      needs.resize(1 + rng() % kExperts);
      const uint32_t rows = rng() % 2 == 0 ? 1 : kSweepRows;
      harness.expect_sweep_of.reset();
      harness.expect.reset();
      if (rng() % 3 == 0) harness.expect_sweep_of = static_cast<uint32_t>(rng() % kLayers);
      if (rng() % 2 == 0) {
        harness.expect.emplace();
        for (int i = 0; i < 3; ++i)
          harness.expect->push_back(static_cast<uint32_t>(rng() % kExperts));
      }
      const Status status = harness.Visit(rng() % kLayers, needs, rows, rng() % 2 == 0);
      ++visits;
      if (!status) {
        ++failures;
        EXPECT_TRUE(hostile) << status.error().message;
        EXPECT_TRUE(status.error().code == ErrorCode::kIo ||
                    status.error().code == ErrorCode::kCorrupt)
            << status.error().message;
      }
      harness.ExpectPoolIsRight();
      harness.ExpectSnapshotIsRight();
    }
    harness.ExpectNoPins();
  }
  EXPECT_GT(failures, 0u);
  EXPECT_LT(failures, visits / 2);
}

// Expected and needed: read once, before the visit, and in the pool as if read on demand.
TEST_P(ExpertStoreTest, WhatWasExpectedIsThereAlready) {
  for (const uint32_t rows : {1u, kSweepRows}) {
    SCOPED_TRACE(rows);
    Harness harness(GetParam());
    Harness plain(GetParam());
    ASSERT_TRUE(harness.Visit(0, Needs({1, 2}), 1));
    harness.store->Expect(1, std::vector<uint32_t>{5, 7, 9}, 4);
    harness.WaitForReads(5);
    const uint64_t reads = harness.backend->reads();
    ASSERT_TRUE(harness.Visit(1, Needs({5, 7, 9}), rows));
    EXPECT_EQ(harness.backend->reads(), reads);
    StoreStats stats = harness.store->stats();
    EXPECT_EQ(stats.read_ahead, 3u);
    EXPECT_EQ(stats.wasted, 0u);
    EXPECT_EQ(stats.misses + stats.swept, 5u);
    ASSERT_TRUE(plain.Visit(0, Needs({1, 2}), 1));
    ASSERT_TRUE(plain.Visit(1, Needs({5, 7, 9}), rows));
    EXPECT_EQ(harness.AllResident(), plain.AllResident());
    harness.ExpectPoolIsRight();
  }
}

TEST_P(ExpertStoreTest, WhatWasExpectedInVainIsDropped) {
  Harness harness(GetParam());
  ASSERT_TRUE(harness.Visit(0, Needs({1, 2}), 1));
  const auto before = harness.AllResident();
  harness.store->Expect(1, std::vector<uint32_t>{3, 4}, 4);
  harness.WaitForReads(4);
  ASSERT_TRUE(harness.Visit(1, Needs({5}), 1));
  const StoreStats stats = harness.store->stats();
  EXPECT_EQ(stats.read_ahead, 0u);
  EXPECT_EQ(stats.wasted, 2u);
  EXPECT_EQ(harness.Resident(1), (std::set<uint32_t>{5}));
  EXPECT_EQ(harness.Resident(0), before[0]);
  // Their frames are free again: a sweep has all four.
  ASSERT_TRUE(harness.Visit(2, AllNeeds(), kSweepRows));
}

// With a slot for every expert nothing is read twice: what was read in vain stays, and so does what
// sweeps read that admit nothing.
TEST_P(ExpertStoreTest, APoolForEverythingKeepsEverything) {
  Harness harness(GetParam(), {}, kLayers * kExperts);
  harness.store->Expect(1, std::vector<uint32_t>{3, 4}, 4);
  harness.WaitForReads(2);
  ASSERT_TRUE(harness.Visit(1, Needs({5}), 1));
  EXPECT_EQ(harness.Resident(1), (std::set<uint32_t>{3, 4, 5}));
  EXPECT_EQ(harness.store->stats().wasted, 0u);
  ASSERT_TRUE(harness.Visit(2, AllNeeds(), kSweepRows, false));
  const uint64_t reads = harness.backend->reads();
  ASSERT_TRUE(harness.Visit(2, AllNeeds(), kSweepRows, false));
  EXPECT_EQ(harness.backend->reads(), reads);
  EXPECT_EQ(harness.Resident(2).size(), size_t{kExperts});
  harness.ExpectPoolIsRight();
}

// A guess that fails harms nobody; needed after all, it is read again.
TEST_P(ExpertStoreTest, AFailedGuessIsNobodysError) {
  Harness harness(GetParam());
  harness.format.failures.Fail(harness.format.Name(1, 3), 2);
  harness.store->Expect(1, std::vector<uint32_t>{3}, 4);
  harness.WaitForReads(1);
  ASSERT_TRUE(harness.Visit(0, Needs({1}), 1));
  ASSERT_TRUE(harness.Visit(1, Needs({3}), 1));
  EXPECT_EQ(harness.store->stats().retries, 1u);
}

// A whole sweep of several layers reads each record once, whatever part was ahead.
TEST_P(ExpertStoreTest, SweepsThatExpectTheNextReadEverythingOnce) {
  for (const uint32_t frames : {2u, 4u, 2 * kExperts}) {
    SCOPED_TRACE(frames);
    Harness harness(GetParam(), {{io::FaultKind::kLate, 0, io::Fault::kEveryLater, 0.3}}, kSlots,
                    frames);
    for (uint32_t round = 0; round < 3; ++round) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        harness.expect_sweep_of = (layer + 1) % kLayers;
        ASSERT_TRUE(harness.Visit(layer, AllNeeds(), kSweepRows, round == 1));
      }
    }
    const StoreStats stats = harness.store->stats();
    EXPECT_EQ(stats.hits + stats.swept, 3u * kLayers * kExperts);
    EXPECT_GT(stats.read_ahead, 0u);
    EXPECT_EQ(stats.wasted, 0u);
    harness.ExpectPoolIsRight();
  }
}

INSTANTIATE_TEST_SUITE_P(DirectAndStaged, ExpertStoreTest, ::testing::Bool());

}  // namespace
}  // namespace slotstream::experts
