#include "experts/slot_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

namespace slotstream::experts {
namespace {

constexpr uint32_t kLayers = 3;
constexpr uint32_t kExperts = 7;

SlotPool MakePool(uint32_t slots) {
  auto pool = SlotPool::Create(slots, kPageSize, kLayers, kExperts);
  EXPECT_TRUE(pool);
  return std::move(*pool);
}

bool Any(uint32_t) { return true; }

TEST(ClockPolicy, SparesWhatWasUsedOnce) {
  ClockPolicy policy(4);
  for (uint32_t slot = 0; slot < 4; ++slot) policy.Filled(slot);
  EXPECT_EQ(policy.ChooseVictim(Any), 0u);  // all were used, so a whole round spares them
  policy.Filled(0);
  policy.Used(2);
  EXPECT_EQ(policy.ChooseVictim(Any), 1u);
  EXPECT_EQ(policy.ChooseVictim(Any), 3u);  // 2 is spared
  policy.Filled(3);
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
  const auto pool = SlotPool::Create(0, kPageSize, 1, 1);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, ErrorCode::kInvalidArgument);
}

TEST(SlotPool, EvictsInTheOrderOfTheClock) {
  SlotPool pool = MakePool(3);
  for (uint32_t expert = 0; expert < 3; ++expert) {
    const uint32_t slot = pool.Claim(1).value()[0];
    pool.Publish(slot, {0, expert});
    pool.Unpin(slot);
  }
  const auto replace_with = [&](uint32_t expert) {
    const uint32_t slot = pool.Claim(1).value()[0];
    pool.Publish(slot, {1, expert});
    pool.Unpin(slot);
  };
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
    pool.Publish(pool.Claim(1).value()[0], {i / kExperts, i % kExperts});
  }
  EXPECT_TRUE(pool.holds_everything());
}

// What a pool should do, written down as plainly as possible.
struct Model {
  struct Slot {
    bool claimed = false;
    std::optional<ExpertKey> key;
    uint32_t pins = 0;
  };
  std::vector<Slot> slots;
  uint64_t evictions = 0;

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
      if (slots[i].key == key) return static_cast<int32_t>(i);
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
          auto got = pool.Claim(count);
          ASSERT_EQ(got.has_value(), count <= model.available());
          if (!got) {
            ASSERT_EQ(got.error().code, ErrorCode::kResourceLimit);
            ++refused;
            break;
          }
          ASSERT_EQ(got->size(), count);
          model.evictions += count - std::min(count, model.free());
          for (uint32_t taken : *got) {
            ASSERT_LT(taken, slots);
            Model::Slot& victim = model.slots[taken];
            ASSERT_TRUE(!victim.claimed && victim.pins == 0) << "slot " << taken << " was in use";
            victim = {.claimed = true, .key = {}, .pins = 0};
            claimed.push_back(taken);
          }
          break;
        }
        case 1:
        case 2: {
          if (claimed.empty()) break;
          const uint32_t done = claimed.back();
          claimed.pop_back();
          if (model.Find(key) >= 0) {
            pool.Abandon(done);
            model.slots[done] = {};
          } else {
            pool.Publish(done, key);
            model.slots[done] = {.claimed = false, .key = key, .pins = 1};
          }
          break;
        }
        case 3:
          if (!entry.key) break;
          pool.Pin(slot);
          ++entry.pins;
          break;
        case 4:
          if (entry.pins == 0) break;
          pool.Unpin(slot);
          --entry.pins;
          break;
        case 5:
          if (entry.key) pool.Use(slot);
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
