// The pool gets smaller and larger between steps.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "experts/clock_policy.h"
#include "experts/expert_store.h"
#include "experts/frequency_policy.h"
#include "experts/ngram_store.h"
#include "experts/optimal_policy.h"
#include "experts/segmented_lru.h"
#include "experts/slot_pool.h"
#include "experts/test_formats.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kLayers = 2;
constexpr uint32_t kExperts = 32;
constexpr uint32_t kMostSlots = 24;

SlotPool MakePool(uint32_t slots, std::unique_ptr<Policy> policy, size_t record = kPageSize) {
  auto pool = SlotPool::Create(slots, record, kLayers, kExperts, std::move(policy), kMostSlots);
  EXPECT_TRUE(pool);
  return std::move(*pool);
}

// Writes the key all over the record, as a read would.
void Fill(SlotPool& pool, ExpertKey key, size_t record = kPageSize) {
  const uint32_t slot = pool.Claim(std::span(&key, 1)).value()[0];
  std::memset(pool.data(slot), static_cast<int>(key.layer * kExperts + key.expert + 1), record);
  pool.Publish(slot);
  pool.Unpin(slot);
}

bool Holds(const SlotPool& pool, ExpertKey key, size_t record = kPageSize) {
  const int32_t slot = pool.Find(key);
  if (slot < 0) return false;
  const auto* data = pool.data(static_cast<uint32_t>(slot));
  const auto wanted = static_cast<std::byte>(key.layer * kExperts + key.expert + 1);
  EXPECT_LT(static_cast<uint32_t>(slot), pool.slots());
  EXPECT_TRUE(std::all_of(data, data + record, [&](std::byte b) { return b == wanted; }));
  return true;
}

size_t ResidentPages(const std::byte* address, size_t bytes) {
  std::vector<unsigned char> pages(bytes / kPageSize);
  EXPECT_EQ(mincore(const_cast<std::byte*>(address), bytes, pages.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(pages, [](unsigned char p) { return p & 1; }));
}

TEST(Resize, KeepsWhatThePolicyKeeps) {
  SlotPool pool = MakePool(6, std::make_unique<SegmentedLruPolicy>(kMostSlots, 3));
  for (uint32_t expert = 0; expert < 6; ++expert) Fill(pool, {0, expert});
  // The last three slots hold what was used again.
  for (uint32_t expert = 3; expert < 6; ++expert) {
    pool.Use(static_cast<uint32_t>(pool.Find({0, expert})));
  }
  ASSERT_TRUE(pool.Resize(4));
  EXPECT_EQ(pool.slots(), 4u);
  EXPECT_EQ(pool.held(), 4u);
  for (uint32_t expert = 0; expert < 2; ++expert) EXPECT_LT(pool.Find({0, expert}), 0);
  for (uint32_t expert = 2; expert < 6; ++expert) EXPECT_TRUE(Holds(pool, {0, expert}));
  // Their order among each other is what it was: expert 2 goes next, then 3.
  Fill(pool, {1, 0});
  EXPECT_LT(pool.Find({0, 2}), 0);
  ASSERT_TRUE(pool.Resize(8));
  for (uint32_t expert = 1; expert < 5; ++expert) Fill(pool, {1, expert});
  EXPECT_EQ(pool.held(), 8u);
  for (uint32_t expert = 3; expert < 6; ++expert) EXPECT_TRUE(Holds(pool, {0, expert}));
}

TEST(Resize, RefusesWhatCannotBe) {
  SlotPool pool = MakePool(4, std::make_unique<ClockPolicy>(kMostSlots));
  EXPECT_EQ(pool.most_slots(), kMostSlots);
  EXPECT_EQ(pool.Resize(0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(pool.Resize(kMostSlots + 1).error().code, ErrorCode::kInvalidArgument);
  const ExpertKey key{0, 1};
  const uint32_t slot = pool.Claim(std::span(&key, 1)).value()[0];
  EXPECT_EQ(pool.Resize(2).error().code, ErrorCode::kInternal);
  pool.Publish(slot);
  EXPECT_EQ(pool.Resize(2).error().code, ErrorCode::kInternal);
  EXPECT_EQ(pool.slots(), 4u);
  pool.Unpin(slot);
  EXPECT_TRUE(pool.Resize(2));
}

TEST(Resize, MemoryGoesBack) {
  constexpr size_t kRecord = size_t{1} << 20;
  SlotPool pool = MakePool(kMostSlots, std::make_unique<ClockPolicy>(kMostSlots), kRecord);
  for (uint32_t expert = 0; expert < kMostSlots; ++expert) Fill(pool, {0, expert}, kRecord);
  const size_t whole = kMostSlots * kRecord;
  EXPECT_EQ(ResidentPages(pool.data(0), whole), whole / kPageSize);
  ASSERT_TRUE(pool.Resize(5));
  EXPECT_EQ(ResidentPages(pool.data(0), whole), 5 * kRecord / kPageSize);
  ASSERT_TRUE(pool.Resize(kMostSlots));
  EXPECT_EQ(ResidentPages(pool.data(0), whole), 5 * kRecord / kPageSize);
}

TEST(Resize, LockedMemoryGoesBackToo) {
  constexpr size_t kRecord = 64 * kPageSize;
  SlotPool pool = MakePool(8, std::make_unique<ClockPolicy>(kMostSlots), kRecord);
  if (mlock2(pool.data(0), 8 * kRecord, MLOCK_ONFAULT) != 0) {
    GTEST_SKIP() << "this user may not lock 2 MB";
  }
  for (uint32_t expert = 0; expert < 8; ++expert) Fill(pool, {0, expert}, kRecord);
  ASSERT_TRUE(pool.Resize(2));
  EXPECT_EQ(ResidentPages(pool.data(0), 8 * kRecord), 2 * kRecord / kPageSize);
}

// Whatever the policy and the sizes: no slot names bytes that it does not hold, and as many are
// held as could be.
TEST(Resize, RandomSizes) {
  const FutureUses uses(kLayers * kExperts, std::vector<uint32_t>{9});
  std::vector<std::unique_ptr<Policy>> policies;
  policies.push_back(std::make_unique<ClockPolicy>(kMostSlots));
  policies.push_back(std::make_unique<SegmentedLruPolicy>(kMostSlots, 5));
  policies.push_back(SegmentedLruPolicy::ForTokens(kMostSlots, 8));
  policies.push_back(std::make_unique<FrequencyPolicy>(kMostSlots, kLayers * kExperts, 10));
  policies.push_back(std::make_unique<OptimalPolicy>(kMostSlots, uses));
  for (size_t i = 0; i < policies.size(); ++i) {
    SCOPED_TRACE(i);
    std::mt19937 rng(3);
    SlotPool pool = MakePool(10, std::move(policies[i]));
    for (int step = 0; step < 2000; ++step) {
      const uint32_t held = pool.held();
      if (rng() % 20 == 0) {
        const auto slots = static_cast<uint32_t>(1 + rng() % kMostSlots);
        ASSERT_TRUE(pool.Resize(slots));
        ASSERT_EQ(pool.slots(), slots);
        ASSERT_EQ(pool.held(), std::min(held, slots));
        continue;
      }
      const ExpertKey key{static_cast<uint32_t>(rng() % kLayers),
                          static_cast<uint32_t>(rng() % kExperts)};
      if (Holds(pool, key)) {
        pool.Use(static_cast<uint32_t>(pool.Find(key)));
        continue;
      }
      Fill(pool, key);
      ASSERT_EQ(pool.held(), std::min(held + 1, pool.slots()));
      ASSERT_TRUE(Holds(pool, key));
    }
  }
}

TEST(Resize, WhatMovesKeepsItsRank) {
  const FutureUses uses = {{7}, {8}, {9}, {6}};
  std::vector<std::unique_ptr<Policy>> policies;
  policies.push_back(std::make_unique<SegmentedLruPolicy>(8, 1));
  policies.push_back(std::make_unique<FrequencyPolicy>(8, 4, 10));
  for (const auto& policy : policies) {
    for (uint32_t slot = 0; slot < 3; ++slot) policy->Filled(slot, slot);
    policy->Moved(0, 5);  // still the first to go
    EXPECT_EQ(policy->ChooseVictim([](uint32_t) { return true; }), 5u);
    policy->Moved(2, 0);
    EXPECT_EQ(policy->ChooseVictim([](uint32_t) { return true; }), 1u);
    EXPECT_EQ(policy->ChooseVictim([](uint32_t) { return true; }), 0u);
  }
  OptimalPolicy optimal(8, uses);
  for (uint32_t slot = 0; slot < 3; ++slot) optimal.Filled(slot, slot);
  optimal.Moved(2, 6);  // still needed last
  EXPECT_EQ(optimal.ChooseVictim([](uint32_t) { return true; }), 6u);
  ClockPolicy clock(8);
  clock.Filled(6, 1);
  clock.Moved(6, 0);
  EXPECT_EQ(clock.ChooseVictim([](uint32_t slot) { return slot < 2; }), 1u);  // 0 is spared
}

TEST(Resize, ASmallerPoolProtectsLess) {
  const auto policy = SegmentedLruPolicy::ForTokens(20, 4);
  policy->Resized(5);  // two of them
  for (uint32_t slot = 0; slot < 5; ++slot) policy->Filled(slot, slot);
  for (const uint32_t slot : {0u, 1u, 2u}) policy->Used(slot);
  // With 8 protected 3 would go first; 0 went back on probation as its most recent.
  EXPECT_EQ(policy->ChooseVictim([](uint32_t) { return true; }), 3u);
  EXPECT_EQ(policy->ChooseVictim([](uint32_t) { return true; }), 4u);
  EXPECT_EQ(policy->ChooseVictim([](uint32_t) { return true; }), 0u);
}

// Records read ahead come into the pool by an exchange of memory; what is the pool's must be found
// again when it shrinks.
TEST(Resize, AStoreBetweenVisits) {
  io::TestDirectory directory;
  TestExperts format(directory, kLayers, kExperts, true);
  io::FaultyBackend* backend = nullptr;
  auto store = ExpertStore::Create(format, FaultyQueue({}, 3, &backend),
                                   {.layers = kLayers,
                                    .token_needs = 4,
                                    .slots = 6,
                                    .most_slots = 12,
                                    .sweep_records = 4,
                                    .sweep_rows = 10},
                                   Clock::Steady());
  ASSERT_TRUE(store);
  std::mt19937 rng(4);
  for (int step = 0; step < 400; ++step) {
    if (step % 7 == 3) {
      ASSERT_TRUE((*store)->Resize(static_cast<uint32_t>(2 + rng() % 11)));
    }
    std::vector<ExpertNeed> needs;
    std::vector<uint32_t> likely;
    const auto first = static_cast<uint32_t>(rng() % 8);
    const uint32_t layer = static_cast<uint32_t>(step) % kLayers;
    for (uint32_t i = 0; i < 4; ++i) {
      needs.push_back({first + i * 3, 1});
      if (i != 1) likely.push_back(first + i * 3);
    }
    if (step % 3 != 0) (*store)->Expect(layer, likely, 2);
    if (step % 11 == 5) {
      ASSERT_TRUE((*store)->Resize(static_cast<uint32_t>(2 + rng() % 11)));
    }
    ASSERT_TRUE((*store)->Begin(layer, needs, step % 5 == 0 ? 20 : 1, step % 10 == 0));
    std::vector<ReadyExpert> ready;
    size_t met = 0;
    do {
      ASSERT_TRUE((*store)->Next(ready));
      for (const ReadyExpert& expert : ready) {
        EXPECT_TRUE(format.Holds(expert.record, layer, needs[expert.need].expert)) << step;
      }
      met += ready.size();
    } while (!ready.empty());
    EXPECT_EQ(met, needs.size());
  }
  EXPECT_GT((*store)->stats().read_ahead, 0u);
  EXPECT_FALSE((*store)->Resize(13));
}

}  // namespace
}  // namespace slotstream::experts
