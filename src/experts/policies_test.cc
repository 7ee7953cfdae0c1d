// Policies by themselves: hand-made traces, and what holds for any trace.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "experts/clock_policy.h"
#include "experts/frequency_policy.h"
#include "experts/optimal_policy.h"
#include "experts/replay.h"
#include "experts/segmented_lru.h"

namespace slotstream::experts {
namespace {

bool Any(uint32_t) { return true; }

std::vector<uint32_t> Victims(Policy& policy, size_t count) {
  std::vector<uint32_t> victims;
  for (size_t i = 0; i < count; ++i) victims.push_back(policy.ChooseVictim(Any));
  return victims;
}

TEST(SegmentedLru, WithoutProtectionIsLru) {
  SegmentedLruPolicy policy(4, 0);
  for (uint32_t slot : {2u, 0u, 3u, 1u}) policy.Filled(slot, 0);
  policy.Used(0);
  policy.Used(2);
  EXPECT_EQ(policy.ChooseVictim([](uint32_t slot) { return slot != 3; }), 1u);
  EXPECT_EQ(Victims(policy, 3), (std::vector<uint32_t>{3, 0, 2}));
}

TEST(SegmentedLru, WhatWasUsedAgainOutlivesTheNew) {
  SegmentedLruPolicy policy(4, 2);
  for (uint32_t slot = 0; slot < 4; ++slot) policy.Filled(slot, 0);
  policy.Used(0);
  policy.Used(1);
  EXPECT_EQ(policy.ChooseVictim(Any), 2u);
  policy.Filled(2, 0);  // more recent than 0 and 1, yet goes before them
  EXPECT_EQ(Victims(policy, 4), (std::vector<uint32_t>{3, 2, 0, 1}));
}

TEST(SegmentedLru, TheOldestProtectedGoesBackOnProbation) {
  SegmentedLruPolicy policy(4, 2);
  for (uint32_t slot = 0; slot < 4; ++slot) policy.Filled(slot, 0);
  for (uint32_t slot : {0u, 1u, 2u}) policy.Used(slot);  // 0 must go back, as its most recent
  EXPECT_EQ(Victims(policy, 4), (std::vector<uint32_t>{3, 0, 1, 2}));
}

TEST(SegmentedLru, ProbationHasRoomForAToken) {
  EXPECT_EQ(ProtectedSlots(100, 40), 40u);
  EXPECT_EQ(ProtectedSlots(100, 70), 30u);
  EXPECT_EQ(ProtectedSlots(100, 100), 0u);
  EXPECT_EQ(ProtectedSlots(20, 480), 0u);
}

// A slot whose read failed is filled anew without having been a victim.
TEST(Policies, MayBeFilledTwice) {
  const FutureUses uses(3, std::vector<uint32_t>{9});
  std::vector<std::unique_ptr<Policy>> policies;
  policies.push_back(std::make_unique<ClockPolicy>(2));
  policies.push_back(std::make_unique<SegmentedLruPolicy>(2, 1));
  policies.push_back(std::make_unique<FrequencyPolicy>(2, 3, 10));
  policies.push_back(std::make_unique<OptimalPolicy>(2, uses));
  for (const auto& policy : policies) {
    policy->Filled(0, 1);
    policy->Used(0);
    policy->Filled(1, 1);  // the same entry, elsewhere
    policy->Used(1);
    policy->Filled(0, 2);
    std::vector<uint32_t> victims = Victims(*policy, 1);
    policy->Filled(victims[0], 0);
    victims = {policy->ChooseVictim([](uint32_t slot) { return slot == 0; }),
               policy->ChooseVictim([](uint32_t slot) { return slot == 1; })};
    EXPECT_EQ(victims, (std::vector<uint32_t>{0, 1}));
  }
}

TEST(Frequency, ScoresAreSumsOfHalvedUses) {
  constexpr double kHalfLife = 3;
  constexpr uint32_t kEntries = 6;
  std::mt19937 rng(2);
  FrequencyPolicy policy(kEntries, kEntries, kHalfLife);
  std::vector<std::vector<int>> uses(kEntries);
  for (uint32_t entry = 0; entry < kEntries; ++entry) {
    policy.Filled(entry, entry);
    uses[entry].push_back(static_cast<int>(entry));
  }
  int now = kEntries;
  for (int round = 0; round < 300; ++round) {
    for (uint32_t i = rng() % 5; i > 0; --i, ++now) {
      const uint32_t entry = std::min(rng() % kEntries, rng() % kEntries);
      policy.Used(entry);
      uses[entry].push_back(now);
    }
    const auto score = [&](uint32_t entry) {
      double sum = 0;
      for (int use : uses[entry]) sum += std::exp2((use - now) / kHalfLife);
      return sum;
    };
    uint32_t least = 0;
    for (uint32_t entry = 1; entry < kEntries; ++entry) {
      if (score(entry) < score(least)) least = entry;
    }
    ASSERT_EQ(policy.ChooseVictim(Any), least) << "round " << round;
    policy.Filled(least, least);  // its old uses still count
    uses[least].push_back(now++);
  }
}

TEST(Optimal, EvictsWhatIsNeededLast) {
  const FutureUses uses = {{0, 5}, {1, 3}, {2}, {4}};
  OptimalPolicy policy(3, uses);
  for (uint32_t entry = 0; entry < 3; ++entry) {
    policy.SetTime(entry);
    policy.Filled(entry, entry);
  }
  EXPECT_EQ(policy.ChooseVictim([](uint32_t slot) { return slot != 2; }), 0u);
  policy.SetTime(3);
  policy.Used(1);
  policy.Filled(0, 3);
  EXPECT_EQ(policy.ChooseVictim([](uint32_t slot) { return slot != 2; }), 1u);
  EXPECT_EQ(policy.ChooseVictim(Any), 2u);
}

// Single needs of one layer, popular experts more often, drifting.
Trace RandomTrace(uint32_t seed, uint32_t experts, uint32_t top_k, uint32_t layers, size_t tokens) {
  std::mt19937 rng(seed);
  Trace trace;
  trace.header = {.layers = layers, .experts = experts, .top_k = top_k, .sweep_rows = 32};
  trace.begin.push_back(0);
  trace.complete = true;
  for (uint32_t token = 0; token < tokens; ++token) {
    for (uint32_t layer = 0; layer < layers; ++layer) {
      std::vector<bool> chosen(experts);
      for (uint32_t k = 0; k < top_k;) {
        const auto expert = static_cast<uint32_t>(
            (std::min({rng() % experts, rng() % experts, rng() % experts}) + token / 50) % experts);
        if (chosen[expert]) continue;
        chosen[expert] = true;
        ++k;
      }
      for (uint32_t expert = 0; expert < experts; ++expert) {
        if (chosen[expert]) trace.needs.push_back({expert, 1});
      }
      trace.begin.push_back(trace.needs.size());
      trace.visits.push_back({.position = token, .layer = layer, .rows = 1});
    }
  }
  return trace;
}

TEST(Replay, NothingBeatsTheOptimum) {
  double gap = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const uint32_t top_k = 1 + seed % 4, layers = 1 + seed % 3;
    const Trace trace = RandomTrace(seed, 12 + seed % 9, top_k, layers, 200);
    for (uint32_t slots = top_k; slots < layers * trace.header.experts; slots += 3) {
      const uint64_t best = Replay(std::span(&trace, 1), PolicyKind::kOptimal, slots)->decode.hits;
      for (PolicyKind kind : kPolicyKinds) {
        const ReplayResult result = Replay(std::span(&trace, 1), kind, slots).value();
        ASSERT_LE(result.decode.hits, best) << NameOf(kind) << " seed " << seed;
        ASSERT_EQ(result.decode.needs(), trace.needs.size());
        ASSERT_LE(result.decode.misses - result.evictions, slots) << "more held than slots";
        if (kind == PolicyKind::kLru) gap += static_cast<double>(best - result.decode.hits);
      }
    }
  }
  EXPECT_GT(gap, 1000);
}

// The optimum of single needs by trying everything.
uint32_t FewestMisses(const std::vector<uint32_t>& needs, size_t at, uint32_t held, uint32_t slots,
                      std::map<std::pair<size_t, uint32_t>, uint32_t>& known) {
  if (at == needs.size()) return 0;
  const uint32_t bit = 1u << needs[at];
  if ((held & bit) != 0) return FewestMisses(needs, at + 1, held, slots, known);
  const auto [entry, is_new] = known.try_emplace({at, held}, UINT32_MAX);
  if (!is_new) return entry->second;
  uint32_t best = UINT32_MAX;
  if (static_cast<uint32_t>(__builtin_popcount(held)) < slots) {
    best = FewestMisses(needs, at + 1, held | bit, slots, known);
  } else {
    for (uint32_t left = held; left != 0; left &= left - 1) {
      const uint32_t victim = left & -left;
      best = std::min(best, FewestMisses(needs, at + 1, (held & ~victim) | bit, slots, known));
    }
  }
  return known[{at, held}] = best + 1;
}

TEST(Replay, TheOptimumIsOptimal) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Trace trace = RandomTrace(seed, 6, 1, 1, 40);
    std::vector<uint32_t> needs;
    for (const ExpertNeed& need : trace.needs) needs.push_back(need.expert);
    for (uint32_t slots = 1; slots < 6; ++slots) {
      std::map<std::pair<size_t, uint32_t>, uint32_t> known;
      EXPECT_EQ(Replay(std::span(&trace, 1), PolicyKind::kOptimal, slots)->decode.misses,
                FewestMisses(needs, 0, 0, slots, known));
    }
  }
}

TEST(Replay, LruIsAListWithTheLastUsedInFront) {
  const Trace trace = RandomTrace(5, 20, 1, 2, 2000);
  for (uint32_t slots : {1u, 7u, 25u}) {
    std::list<std::pair<uint32_t, uint32_t>> recent;
    uint64_t hits = 0;
    for (size_t i = 0; i < trace.visits.size(); ++i) {
      const std::pair key{trace.visits[i].layer, trace.NeedsOf(i)[0].expert};
      const auto at = std::ranges::find(recent, key);
      if (at != recent.end()) {
        ++hits;
        recent.erase(at);
      } else if (recent.size() == slots) {
        recent.pop_back();
      }
      recent.push_front(key);
    }
    EXPECT_EQ(Replay(std::span(&trace, 1), PolicyKind::kLru, slots)->decode.hits, hits);
  }
}

TEST(Replay, TracesShareOnePool) {
  const std::vector<Trace> twice(2, RandomTrace(1, 20, 2, 2, 30));
  const ReplayResult once = Replay(std::span(twice).first(1), PolicyKind::kOptimal, 40).value();
  const ReplayResult both = Replay(twice, PolicyKind::kOptimal, 40).value();
  EXPECT_EQ(both.decode.misses, once.decode.misses);  // all is there the second time
  EXPECT_EQ(both.decode.needs(), 2 * once.decode.needs());
  std::vector<Trace> mixed = twice;
  mixed[1].header.experts = 21;
  EXPECT_EQ(Replay(mixed, PolicyKind::kLru, 40).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Replay(twice, PolicyKind::kLru, 0).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace slotstream::experts
