#include "plan/forecast.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "checkpoint/geometry.h"
#include "checkpoint/outline.h"
#include "plan/hit_rate.h"

namespace slotstream::plan {
namespace {

Range Exactly(double value) { return {value, value, value}; }

class ForecastTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto outline = checkpoint::OutlineOf(checkpoint::PublishedGeometry(), "the published model");
    ASSERT_TRUE(outline) << outline.error().message;
    model_ = std::move(*outline);
    shape_ = ShapeOf(*model_);
  }
  Result<Plan> MakePlanFor(uint64_t available) const {
    return MakePlan(*model_, {.memory_available = available, .cores = 8}, {});
  }
  static ComputeRates Compute(double scale = 1) {
    return {.memory = Exactly(40e9 * scale),
            .row_weights = Exactly(30e9 * scale),
            .dense_pass = Exactly(400e9 * scale),
            .expert_pass = Exactly(300e9 * scale)};
  }

  std::unique_ptr<checkpoint::Checkpoint> model_;
  ModelShape shape_;
};

TEST_F(ForecastTest, TheModelIsThePublishedOne) {
  EXPECT_EQ(shape_.record_bytes, 2'764'800);
  EXPECT_EQ(shape_.config.num_layers(), 48u);
  EXPECT_NEAR(static_cast<double>(model_->layout(checkpoint::Part::kTrunk)->bytes), 2.93e9, 0.01e9);
}

// More memory or a faster disk is never forecast slower, in any of the three columns.
TEST_F(ForecastTest, MoreIsNeverSlower) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const uint64_t memory = 4'500'000'000 + random() % 120'000'000'000;
    const uint64_t more = memory + random() % (round % 2 == 0 ? 4'000'000 : 20'000'000'000);
    const double disk = 0.02e9 * static_cast<double>(1 + random() % 1000);
    const double faster = disk * (1 + static_cast<double>(random() % 1000) / 500);
    const auto plan = MakePlanFor(memory), larger = MakePlanFor(more);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_TRUE(larger);
    const auto rates = AssumedDisk(disk, 2'764'800), better = AssumedDisk(faster, 2'764'800);
    const Forecast base = MakeForecast(shape_, *plan, rates, Compute());
    for (const Forecast& other : {MakeForecast(shape_, *larger, rates, Compute()),
                                  MakeForecast(shape_, *plan, better, Compute()),
                                  MakeForecast(shape_, *plan, rates, Compute(1.3)),
                                  MakeForecast(shape_, *larger, better, Compute(1.3))}) {
      const auto check = [&](const Range& before, const Range& after) {
        EXPECT_GE(after.low, before.low * (1 - 1e-12)) << memory << " " << more << " " << disk;
        EXPECT_GE(after.typical, before.typical * (1 - 1e-12)) << memory << " " << more;
        EXPECT_GE(after.high, before.high * (1 - 1e-12)) << memory << " " << more;
      };
      check(base.decode, other.decode);
      check(base.prefill, other.prefill);
    }
  }
}

// Nothing is read or computed faster than it was measured.
TEST_F(ForecastTest, StaysWithinTheMeasuredRates) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    const auto plan = MakePlanFor(4'500'000'000 + random() % 120'000'000'000);
    ASSERT_TRUE(plan);
    const double full = 0.05e9 * static_cast<double>(1 + random() % 300);
    DiskRates disk = AssumedDisk(full, 2'764'800);
    disk.single = {full * 0.3, full * 0.5, full * 0.7};
    disk.full = {full * 0.8, full, full * 1.1};
    disk.ordered = {full * 0.9, full * 1.1, full * 1.2};
    ComputeRates compute = Compute();
    compute.row_weights = {20e9, 30e9, 35e9};
    const Forecast forecast = MakeForecast(shape_, *plan, disk, compute);
    EXPECT_LE(forecast.decode.low, forecast.decode.typical);
    EXPECT_LE(forecast.decode.typical, forecast.decode.high);
    EXPECT_LE(forecast.prefill.low, forecast.prefill.typical);
    EXPECT_LE(forecast.prefill.typical, forecast.prefill.high);
    const double weights = static_cast<double>(shape_.cost.decode_bytes - shape_.cost.state_bytes);
    EXPECT_LT(forecast.decode.high, 35e9 / weights);
    EXPECT_LT(forecast.prefill.high,
              400e9 / (shape_.cost.operations - shape_.cost.head_operations));
    EXPECT_GE(forecast.disk_share, 0);
    EXPECT_LT(forecast.disk_share, 1);
    // What is read cannot arrive faster than the disk gives it.
    if (forecast.read_per_token > 0) {
      EXPECT_LE(forecast.decode.typical, full / forecast.read_per_token);
    }
  }
}

// More slots never raise the misses of a pass, more rows never raise those of a row.
TEST_F(ForecastTest, MissesOfPassesFollowTheCurve) {
  constexpr uint32_t kRows[] = {1, 16, 256, 2048};
  for (uint64_t slots = 0; slots <= 48 * 512; slots += 480) {
    double per_row = 11;
    for (const uint32_t rows : kRows) {
      const double misses = MissesOfPass(shape_.config, slots, rows, &Range::typical);
      EXPECT_GE(misses, MissesOfPass(shape_.config, slots + 480, rows, &Range::typical));
      EXPECT_GE(misses, MissesOfPass(shape_.config, slots, rows, &Range::high));
      EXPECT_LE(misses, MissesOfPass(shape_.config, slots, rows, &Range::low));
      EXPECT_LE(misses / rows, per_row);
      EXPECT_LE(misses, 512.0 - static_cast<double>(slots) / 48 + 1e-9);
      per_row = misses / rows;
    }
  }
  const Range one = HitRate(shape_.config, 48 * 60);
  EXPECT_NEAR(MissesOfPass(shape_.config, 48 * 60, 1, &Range::typical), 10 * (1 - one.typical),
              1e-9);
}

TEST_F(ForecastTest, ASlowDiskIsForecastSlow) {
  const auto plan = MakePlanFor(16'000'000'000);
  ASSERT_TRUE(plan);
  const Forecast slow = MakeForecast(shape_, *plan, AssumedDisk(0.1e9, 2'764'800), Compute());
  const Forecast fast = MakeForecast(shape_, *plan, AssumedDisk(7e9, 2'764'800), Compute());
  EXPECT_LT(slow.decode.typical, 0.4);
  EXPECT_GT(slow.disk_share, 0.9);
  EXPECT_GT(fast.decode.typical, 10 * slow.decode.typical);
}

TEST_F(ForecastTest, WhatReadingTakesFromTheCoresIsCounted) {
  const auto plan = MakePlanFor(16'000'000'000);
  ASSERT_TRUE(plan);
  DiskRates disk = AssumedDisk(14e9, 2'764'800);
  disk.core_seconds = 0;
  const Forecast free = MakeForecast(shape_, *plan, disk, Compute());
  disk.core_seconds = 1e-9;
  const Forecast dear = MakeForecast(shape_, *plan, disk, Compute());
  const double seconds = dear.read_per_token * 1e-9 / plan->threads;
  EXPECT_NEAR(1 / dear.decode.typical, 1 / free.decode.typical + seconds, 0.2 * seconds);
  EXPECT_LT(dear.prefill.typical, free.prefill.typical);
}

// Few rows an expert cost more than many.
TEST_F(ForecastTest, ShortPassesAreSlower) {
  auto plan = MakePlanFor(128'000'000'000);
  ASSERT_TRUE(plan);
  const auto prefill = [&](uint32_t rows) {
    plan->pass_rows = rows;
    return MakeForecast(shape_, *plan, AssumedDisk(14e9, 2'764'800), Compute()).prefill.typical;
  };
  EXPECT_LT(prefill(16), 0.85 * prefill(256));
  EXPECT_LT(prefill(128), 0.95 * prefill(1024));
  EXPECT_NEAR(prefill(2048), prefill(4096), 1e-9 * prefill(4096));
}

TEST_F(ForecastTest, ResidentExpertsWaitForNothing) {
  const auto plan = MakePlanFor(128'000'000'000);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->slots, plan->all_slots);
  DiskRates disk = AssumedDisk(0.1e9, 2'764'800);
  disk.rows_per_second = 0;
  const Forecast forecast = MakeForecast(shape_, *plan, disk, Compute());
  EXPECT_EQ(forecast.disk_share, 0);
  EXPECT_EQ(forecast.read_per_token, 0);
  EXPECT_EQ(forecast.hit_rate.low, 1);
}

TEST_F(ForecastTest, SmallMachinesGetAPlanOrAClearNo) {
  EXPECT_TRUE(MakePlanFor(6'500'000'000));
  const auto refused = MakePlanFor(3'000'000'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
  EXPECT_NE(refused.error().message.find("trunk 2.93 GB"), std::string::npos);
}

TEST_F(ForecastTest, HitRatesAreThePublishedCurve) {
  const auto at = [&](double per_layer) {
    return HitRate(shape_.config, static_cast<uint64_t>(per_layer * 48));
  };
  EXPECT_NEAR(at(30).typical, 0.568, 1e-3);
  EXPECT_NEAR(at(90).low, 0.693, 1e-3);
  EXPECT_EQ(at(512).low, 1);
  EXPECT_EQ(at(600).high, 1);
  EXPECT_EQ(at(4).high, 0);
  Range before;
  for (uint64_t slots = 0; slots <= 48 * 512; slots += 7) {
    const Range rate = HitRate(shape_.config, slots);
    EXPECT_GE(rate.low, before.low);
    EXPECT_GE(rate.typical, before.typical);
    EXPECT_GE(rate.high, before.high);
    EXPECT_LE(rate.low, rate.typical);
    EXPECT_LE(rate.typical, rate.high);
    EXPECT_LE(rate.high, 1);
    before = rate;
  }
}

TEST(RangeOf, TheMeanIsThatOfTheTime) {
  const Range range = RangeOf({1.0, 3.0});
  EXPECT_EQ(range.low, 1.0);
  EXPECT_EQ(range.high, 3.0);
  EXPECT_NEAR(range.typical, 1.5, 1e-12);
}

}  // namespace
}  // namespace slotstream::plan
