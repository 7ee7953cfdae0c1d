#include "plan/governor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/fake_machine.h"

namespace slotstream::plan {
namespace {

constexpr uint64_t kMB = 1'000'000;
constexpr uint64_t kSecond = 1'000'000'000;

GovernorLimits Limits() {
  return {.least = {.prefix_bytes = 0, .ngram_rows = 64, .slots = 20},
          .most = {.prefix_bytes = 300 * kMB, .ngram_rows = 1'000'064, .slots = 2020},
          .costs = {.ngram_row_bytes = 100, .slot_bytes = 2 * kMB},
          .reserve = 500 * kMB};
}

// A state that has run for a while, last pressed and changed at `at`.
GovernorState Settled(uint64_t at = 0) {
  return {.pressed_at = at, .changed_at = at, .events = 5, .started = true};
}

Decision At(uint64_t seconds, const Pressure& pressure, const CacheSizes& sizes = Limits().most,
            const GovernorState& state = Settled()) {
  return Decide(Limits(), state, pressure, sizes, seconds * kSecond);
}

Pressure Available(uint64_t megabytes) { return {.available = megabytes * kMB}; }

TEST(Governor, DoesNothingWhileThereIsRoom) {
  for (const uint64_t megabytes : {500u, 900u, 5000u}) {
    const Decision decision = At(100, Available(megabytes));
    EXPECT_EQ(decision.sizes, Limits().most);
    EXPECT_EQ(decision.reason, "");
  }
  EXPECT_EQ(At(100, Pressure{}).sizes, Limits().most);  // a system that says nothing
}

TEST(Governor, ThePrefixCacheGoesFirst) {
  const Decision decision = At(100, Available(400));  // 600 MB to give back
  EXPECT_EQ(decision.sizes.prefix_bytes, 0u);
  EXPECT_EQ(decision.sizes.ngram_rows, 64u);      // another 100
  EXPECT_EQ(decision.sizes.slots, 2020u - 100u);  // and 200
  EXPECT_NE(decision.reason, "");
  const Decision little = At(100, {.available = 499 * kMB}, {250 * kMB + 251 * kMB, 64, 20});
  EXPECT_EQ(little.sizes.prefix_bytes, 0u);
}

TEST(Governor, OnlyAsMuchAsIsNeeded) {
  GovernorLimits limits = Limits();
  limits.most.prefix_bytes = 900 * kMB;
  const Decision decision =
      Decide(limits, Settled(), Available(450), limits.most, 100 * kSecond);  // 550 MB
  EXPECT_EQ(decision.sizes.prefix_bytes, 350 * kMB);
  EXPECT_EQ(decision.sizes.ngram_rows, limits.most.ngram_rows);
  EXPECT_EQ(decision.sizes.slots, limits.most.slots);
}

TEST(Governor, NeverBelowTheLeast) {
  CacheSizes sizes = Limits().most;
  GovernorState state = Settled();
  for (uint64_t second = 100; second < 200; ++second) {
    const Decision decision = Decide(Limits(), state, Available(0), sizes, second * kSecond);
    sizes = decision.sizes;
    state = decision.state;
  }
  EXPECT_EQ(sizes, Limits().least);
}

TEST(Governor, WaitsToSeeWhatAChangeDid) {
  const GovernorState just = Settled(100 * kSecond);
  EXPECT_EQ(At(100, Available(100), Limits().most, just).sizes, Limits().most);
  EXPECT_NE(At(101, Available(100), Limits().most, just).sizes, Limits().most);
  const Pressure stalled{.available = 600 * kMB, .stalled = 20};
  EXPECT_EQ(At(104, stalled, Limits().most, just).sizes, Limits().most);
  EXPECT_NE(At(105, stalled, Limits().most, just).sizes, Limits().most);
}

TEST(Governor, StallsTakeAShare) {
  const auto given = [&](std::optional<uint64_t> available, double stalled) {
    const CacheSizes sizes{0, 64, 2020};
    return 2020 - At(100, {.available = available, .stalled = stalled}, sizes).sizes.slots;
  };
  EXPECT_EQ(given(600 * kMB, 9.9), 0u);
  EXPECT_NEAR(given(600 * kMB, 10), 2020 / 16, 1);
  EXPECT_NEAR(given(600 * kMB, 40), 2020 / 4, 1);
  EXPECT_NEAR(given(std::nullopt, 10), 2020 / 16, 1);
  EXPECT_EQ(given(1500 * kMB, 90), 0u);  // somebody else's limit: there is room here
}

TEST(Governor, ALimitThatWasHitCountsWhenLittleIsLeft) {
  const CacheSizes sizes{0, 64, 2020};
  const auto given = [&](uint64_t megabytes, uint64_t events, const GovernorState& state) {
    return 2020 -
           At(100, {.available = megabytes * kMB, .events = events}, sizes, state).sizes.slots;
  };
  EXPECT_NEAR(given(900, 6, Settled()), 2020 / 16, 1);
  EXPECT_EQ(given(900, 5, Settled()), 0u);        // nothing new
  EXPECT_EQ(given(1100, 6, Settled()), 0u);       // file pages, most likely
  EXPECT_EQ(given(900, 6, GovernorState{}), 0u);  // what was before us
  EXPECT_EQ(At(100, {.available = 900 * kMB, .events = 9}, sizes).state.events, 9u);
}

TEST(Governor, GrowsBackSlowlyAndAfterQuiet) {
  const CacheSizes small{0, 64, 1000};
  EXPECT_EQ(At(29, Available(5000), small).sizes, small);
  const Decision grown = At(30, Available(5000), small);
  const uint64_t missing = 1020 * 2 * kMB + 300 * kMB + 100 * kMB;
  EXPECT_EQ(grown.sizes.slots, 1000 + missing / 16 / (2 * kMB));
  EXPECT_EQ(grown.sizes.ngram_rows, 64 + missing / 16 % (2 * kMB) / 100);  // what no slot fits in
  EXPECT_NE(grown.reason, "");
  // Not right after a change, nor while pressed within the last half minute.
  GovernorState state = Settled();
  state.changed_at = 99 * kSecond;
  EXPECT_EQ(At(100, Available(5000), small, state).sizes, small);
  state = Settled();
  state.pressed_at = 71 * kSecond;
  EXPECT_EQ(At(100, Available(5000), small, state).sizes, small);
  // Only within what is spare beyond three reserves.
  EXPECT_EQ(At(100, Available(1500), small).sizes, small);
  EXPECT_EQ(At(100, Available(1504), small).sizes.slots, 1002u);
}

TEST(Governor, ThePoolGrowsFirstThenTheOthers) {
  const CacheSizes full_pool{0, 64, 2020};
  const Decision decision = At(100, Available(50'000), full_pool);
  EXPECT_GT(decision.sizes.ngram_rows, 64u);
  EXPECT_EQ(decision.sizes.prefix_bytes, 0u);
  const Decision last = At(100, Available(50'000), {299 * kMB, 1'000'064, 2020});
  EXPECT_EQ(last.sizes, Limits().most);
}

TEST(Governor, AStartCountsAsAChange) {
  const Decision first = At(100, Available(5000), {0, 64, 1000}, GovernorState{});
  EXPECT_EQ(first.sizes.slots, 1000u);
  EXPECT_TRUE(first.state.started);
  EXPECT_EQ(first.state.changed_at, 100 * kSecond);
  // But pressure is answered at once.
  EXPECT_LT(At(100, Available(100), Limits().most, GovernorState{}).sizes.slots, 2020u);
}

TEST(Governor, LimitsThatAreEqualPin) {
  GovernorLimits limits = Limits();
  limits.least = limits.most;
  for (const Pressure& pressure : {Available(0), Available(90'000), Pressure{.stalled = 99}}) {
    EXPECT_EQ(Decide(limits, Settled(), pressure, limits.most, 100 * kSecond).sizes, limits.most);
  }
}

// A machine of which others take memory as a curve says; what we hold comes out of the rest.
struct Simulation {
  GovernorLimits limits = Limits();
  uint64_t machine = 16'000 * kMB;
  CacheSizes sizes = limits.most;
  GovernorState state;
  int shrinks = 0, grows = 0;
  uint64_t short_seconds = 0;  // with less than nothing available

  uint64_t Held() const {
    return sizes.prefix_bytes + sizes.ngram_rows * limits.costs.ngram_row_bytes +
           sizes.slots * limits.costs.slot_bytes;
  }
  void Second(uint64_t second, uint64_t others) {
    const uint64_t taken = others + Held();
    if (taken > machine) ++short_seconds;
    const uint64_t available = machine > taken ? machine - taken : 0;
    const uint64_t before = Held();
    const Decision decision =
        Decide(limits, state, {.available = available, .stalled = available == 0 ? 50 : 0}, sizes,
               second * kSecond);
    sizes = decision.sizes;
    state = decision.state;
    EXPECT_EQ(decision.reason.empty(), Held() == before);
    shrinks += Held() < before;
    grows += Held() > before;
    EXPECT_GE(sizes.slots, limits.least.slots);
    EXPECT_LE(sizes.slots, limits.most.slots);
    EXPECT_LE(sizes.ngram_rows, limits.most.ngram_rows);
    EXPECT_LE(sizes.prefix_bytes, limits.most.prefix_bytes);
    // It grows only into what is free: never into a shortage of its own making.
    if (Held() > before) {
      EXPECT_LE(others + Held() + 3 * limits.reserve, machine);
    }
  }
};

TEST(GovernorSimulation, AHogComesAndGoes) {
  // Others of a desktop, megabytes, seconds: idle, a build that takes 9 GB in ten seconds, idle.
  Simulation simulation;
  for (uint64_t second = 1; second <= 600; ++second) {
    uint64_t others = 3000;
    if (second >= 100 && second < 300) others += std::min<uint64_t>(second - 100, 10) * 900;
    simulation.Second(second, others * kMB);
    if (second == 99) {
      EXPECT_EQ(simulation.sizes, simulation.limits.most);
    }
    if (second == 299) {
      // Everything fits, with a reserve, and no more was given than that needs.
      EXPECT_LE(12'000 * kMB + simulation.Held() + simulation.limits.reserve, simulation.machine);
      EXPECT_GT(simulation.sizes.slots, 800u);
    }
  }
  EXPECT_EQ(simulation.sizes, simulation.limits.most);
  EXPECT_LE(simulation.short_seconds, 1u);
  EXPECT_GE(simulation.shrinks, 2);
  EXPECT_GE(simulation.grows, 10);  // slowly
}

TEST(GovernorSimulation, AWaveAroundTheReserveDoesNotMakeItSwing) {
  Simulation simulation;
  for (uint64_t second = 1; second <= 3600; ++second) {
    simulation.Second(second, (11'300 + (second % 20 < 10 ? 0 : 300)) * kMB);
  }
  EXPECT_LE(simulation.shrinks, 3);
  EXPECT_EQ(simulation.grows, 0);
}

TEST(GovernorSimulation, RandomCurves) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    Simulation simulation;
    uint64_t others = 2000;
    uint64_t short_in_a_row = 0, longest = 0;
    for (uint64_t second = 1; second <= 2000; ++second) {
      if (random() % 50 == 0) others = 1000 + random() % 14'000;
      const uint64_t before = simulation.short_seconds;
      simulation.Second(second, others * kMB);
      short_in_a_row = simulation.short_seconds > before ? short_in_a_row + 1 : 0;
      longest = std::max(longest, short_in_a_row);
    }
    // Others may jump by more than the reserve; then it takes one decision to make room.
    EXPECT_LE(longest, 12u) << seed;
    EXPECT_LE(simulation.shrinks + simulation.grows, 900) << seed;
  }
}

TEST(ReadPressure, FromWhatIsThere) {
  FakeMachine machine;
  EXPECT_FALSE(ReadPressure(machine.files()).available);
  EXPECT_FALSE(ReadPressure(machine.files()).stalled);
  EXPECT_FALSE(ReadPressure(machine.files()).events);
  machine.WithMemory(900).With("proc/pressure/memory", "some avg10=4.00 avg60=0.00\n");
  EXPECT_EQ(ReadPressure(machine.files()).available, 900u << 20);
  EXPECT_EQ(ReadPressure(machine.files()).stalled, 4.0);
  machine.With("proc/self/cgroup", "0::/a\n")
      .WithGroup("a", "1000000", 400'000, 0)
      .With("sys/fs/cgroup/a/memory.pressure", "some avg10=9.00 avg60=0.00\n")
      .With("sys/fs/cgroup/a/memory.events", "high 2\nmax 3\n");
  EXPECT_EQ(ReadPressure(machine.files()).available, 600'000u);
  EXPECT_EQ(ReadPressure(machine.files()).stalled, 9.0);  // the group's own
  EXPECT_EQ(ReadPressure(machine.files()).events, 5u);
}

TEST(ReserveOf, IsAPartOfTheMachine) {
  EXPECT_EQ(ReserveOf(256 * kMB), 8 * kMB);
  EXPECT_EQ(ReserveOf(16'000 * kMB), 500 * kMB);
  EXPECT_EQ(ReserveOf(512'000 * kMB), 1000 * kMB);
}

}  // namespace
}  // namespace slotstream::plan
