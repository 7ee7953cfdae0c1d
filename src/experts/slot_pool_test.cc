#include "experts/slot_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "experts/clock_policy.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kLayers = 3;
constexpr uint32_t kExperts = 12;

SlotPool MakePool(uint32_t slots) {
  auto pool =
      SlotPool::Create(slots, kPageSize, kLayers, kExperts, std::make_unique<ClockPolicy>(slots));
  EXPECT_TRUE(pool);
  return std::move(*pool);
}

// Claims and publishes; the slot stays pinned.
uint32_t Fill(SlotPool& pool, ExpertKey key) {
  const std::vector<uint32_t> claimed = pool.Claim(std::span(&key, 1)).value();
  pool.Publish(claimed[0]);
  return claimed[0];
}

bool Any(uint32_t) { return true; }

TEST(ClockPolicy, SparesWhatWasUsedOnce) {
  ClockPolicy policy(4);
  for (uint32_t slot = 0; slot < 4; ++slot) policy.Filled(slot, 0);
  EXPECT_EQ(policy.ChooseVictim(Any), 0u);  // all were used, so a whole round spares them
  policy.Filled(0, 0);
  policy.Used(2);
  EXPECT_EQ(policy.ChooseVictim(Any), 1u);
  EXPECT_EQ(policy.ChooseVictim(Any), 3u);  // 2 is spared
  policy.Filled(3, 0);
  EXPECT_EQ(policy.ChooseVictim(Any), 1u);  // 0 is spared, 1 was not filled again
  EXPECT_EQ(policy.ChooseVictim(Any), 2u);  // only once
}

TEST(ClockPolicy, WhatMayNotGoKeepsItsMark) {
  ClockPolicy policy(3);
  policy.Used(0);
  EXPECT_EQ(policy.ChooseVictim([](uint32_t slot) { return slot == 2; }), 2u);
  EXPECT_EQ(policy.ChooseVictim(Any), 1u);  // 0 is still marked
}

TEST(SlotPool, NeedsASlot) {
  const auto pool = SlotPool::Create(0, kPageSize, 1, 1, std::make_unique<ClockPolicy>(0));
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, ErrorCode::kInvalidArgument);
}

TEST(SlotPool, EvictsInTheOrderOfTheClock) {
  SlotPool pool = MakePool(3);
  for (uint32_t expert = 0; expert < 3; ++expert) pool.Unpin(Fill(pool, {0, expert}));
  const auto replace_with = [&](uint32_t expert) { pool.Unpin(Fill(pool, {1, expert})); };
  replace_with(0);
  EXPECT_EQ(pool.Find({0, 0}), -1);
  pool.Use(static_cast<uint32_t>(pool.Find({0, 1})));
  replace_with(1);
  EXPECT_GE(pool.Find({0, 1}), 0);  // used again, so spared
  EXPECT_EQ(pool.Find({0, 2}), -1);
  EXPECT_EQ(pool.evictions(), 2u);
}

TEST(SlotPool, HoldsEverythingWhenNothingIsMissing) {
  SlotPool pool = MakePool(kLayers * kExperts + 1);
  for (uint32_t i = 0; i < kLayers * kExperts; ++i) {
    EXPECT_FALSE(pool.holds_everything());
    Fill(pool, {i / kExperts, i % kExperts});
  }
  EXPECT_TRUE(pool.holds_everything());
}

// What a pool should do, written down as plainly as possible.
struct Model {
  struct Slot {
    bool claimed = false;
    std::optional<ExpertKey> key;  // that it holds, or is claimed for
    uint32_t pins = 0;
  };
  std::vector<Slot> slots;
  uint64_t evictions = 0;

  bool Absent(ExpertKey key) const {
    return std::ranges::none_of(slots, [&](const Slot& slot) { return slot.key == key; });
  }
  uint32_t available() const {
    uint32_t count = 0;
    for (const Slot& slot : slots) count += !slot.claimed && slot.pins == 0;
    return count;
  }
  uint32_t free() const {
    uint32_t count = 0;
    for (const Slot& slot : slots) count += !slot.claimed && !slot.key;
    return count;
  }
  int32_t Find(ExpertKey key) const {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].key == key && !slots[i].claimed) return static_cast<int32_t>(i);
    }
    return -1;
  }
};

void ExpectEqual(const SlotPool& pool, const Model& model) {
  uint32_t held = 0;
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      ASSERT_EQ(pool.Find({layer, expert}), model.Find({layer, expert}));
      held += model.Find({layer, expert}) >= 0;
    }
  }
  ASSERT_EQ(pool.held(), held);
  ASSERT_EQ(pool.evictions(), model.evictions);
}

TEST(SlotPool, DoesWhatTheModelDoes) {
  std::mt19937 rng(1);
  for (const uint32_t slots : {1u, 2u, 5u, 11u}) {
    SCOPED_TRACE(slots);
    SlotPool pool = MakePool(slots);
    ASSERT_EQ(pool.slots(), slots);
    Model model{.slots = std::vector<Model::Slot>(slots)};
    std::vector<uint32_t> claimed;
    uint32_t refused = 0;
    for (int step = 0; step < 3000; ++step) {
      const auto slot = static_cast<uint32_t>(rng() % slots);
      Model::Slot& entry = model.slots[slot];
      const ExpertKey key{static_cast<uint32_t>(rng() % kLayers),
                          static_cast<uint32_t>(rng() % kExperts)};
      switch (rng() % 6) {
        case 0: {
          const uint32_t count = static_cast<uint32_t>(rng() % (slots + 2));
          std::vector<ExpertKey> keys;
          for (uint32_t i = 0; keys.size() < count; ++i) {
            const ExpertKey absent{i % kLayers, (key.expert + i / kLayers) % kExperts};
            if (model.Absent(absent)) keys.push_back(absent);
          }
          auto got = pool.Claim(keys);
          ASSERT_EQ(got.has_value(), count <= model.available());
          if (!got) {
            ASSERT_EQ(got.error().code, ErrorCode::kResourceLimit);
            ++refused;
            break;
          }
          ASSERT_EQ(got->size(), count);
          model.evictions += count - std::min(count, model.free());
          for (uint32_t i = 0; i < count; ++i) {
            const uint32_t taken = (*got)[i];
            ASSERT_LT(taken, slots);
            Model::Slot& victim = model.slots[taken];
            ASSERT_TRUE(!victim.claimed && victim.pins == 0) << "slot " << taken << " was in use";
            victim = {.claimed = true, .key = keys[i], .pins = 0};
            claimed.push_back(taken);
          }
          break;
        }
        case 1:
        case 2: {
          if (claimed.empty()) break;
          const uint32_t done = claimed.back();
          claimed.pop_back();
          if (rng() % 4 == 0) {
            pool.Abandon(done);
            model.slots[done] = {};
          } else {
            pool.Publish(done);
            model.slots[done].claimed = false;
            model.slots[done].pins = 1;
          }
          break;
        }
        case 3:
          if (!entry.key || entry.claimed) break;
          pool.Pin(slot);
          ++entry.pins;
          break;
        case 4:
          if (entry.pins == 0) break;
          pool.Unpin(slot);
          --entry.pins;
          break;
        case 5:
          if (entry.key && !entry.claimed) pool.Use(slot);
          break;
      }
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(pool, model)) << "step " << step;
    }
    EXPECT_GT(refused, 0u);
    EXPECT_GT(model.evictions, 0u);
  }
}

}  // namespace
}  // namespace slotstream::experts
