#include "plan/rates.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/pack_writer.h"
#include "io/faulty_backend.h"
#include "io/test_directory.h"

namespace slotstream::plan {
namespace {

// Time that passes only when somebody says so.
class FakeClock final : public Clock {
 public:
  uint64_t NowNanos() const override { return now_; }
  void Pass(double seconds) { now_ += static_cast<uint64_t>(seconds * 1e9); }

 private:
  uint64_t now_ = 1;
};

// A disk of which each read takes `access` seconds, many at once, and then its bytes at a rate, one
// after another.
class SlowBackend final : public io::ReadBackend {
 public:
  SlowBackend(std::unique_ptr<io::ReadBackend> inner, FakeClock& clock, double bytes_per_second,
              double access)
      : inner_(std::move(inner)), clock_(clock), rate_(bytes_per_second), access_(access) {}
  std::string_view name() const override { return "slow"; }
  size_t depth() const override { return inner_->depth(); }
  Status Start(std::span<const io::BackendRead> reads) override {
    if (in_flight_ == 0) clock_.Pass(access_);
    in_flight_ += reads.size();
    return inner_->Start(reads);
  }
  size_t Reap(std::span<io::BackendResult> out, bool wait) override {
    const size_t count = inner_->Reap(out, wait);
    for (size_t i = 0; i < count; ++i) clock_.Pass(static_cast<double>(out[i].result) / rate_);
    in_flight_ -= count;
    return count;
  }
  void WaitReady() override { inner_->WaitReady(); }

 private:
  std::unique_ptr<io::ReadBackend> inner_;
  FakeClock& clock_;
  double rate_, access_;
  size_t in_flight_ = 0;
};

class RatesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Packed, so that a record's bytes are the bytes read.
    const std::string packed = directory_ / "packed";
    ASSERT_TRUE(
        checkpoint::Pack(std::string(SLOTSTREAM_SOURCE_DIR) + "/models/miniature", packed, {}));
    auto opened = checkpoint::Checkpoint::Open(packed);
    ASSERT_TRUE(opened);
    checkpoint_ = std::move(*opened);
  }
  std::unique_ptr<io::ReadBackend> Threads() const {
    return io::MakeBackend(io::BackendKind::kThreads, 64, nullptr).value();
  }
  Result<DiskRates> Measure(double bytes_per_second, double access) {
    FakeClock clock;
    io::ReadQueue queue(std::make_unique<SlowBackend>(Threads(), clock, bytes_per_second, access),
                        clock);
    return MeasureDisk(*checkpoint_, queue, clock, 1.0, 7);
  }

  io::TestDirectory directory_;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;
};

TEST_F(RatesTest, ADisksRateIsFound) {
  const auto rates = Measure(20e6, 0);
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_NEAR(rates->full.typical, 20e6, 2e6);
  EXPECT_NEAR(rates->single.typical, 20e6, 2e6);
  EXPECT_NEAR(rates->ordered.typical, 20e6, 2e6);
  EXPECT_LE(rates->full.low, rates->full.typical);
  EXPECT_LE(rates->full.typical, rates->full.high);
}

// One record at a time pays for every access.
TEST_F(RatesTest, AccessTimeShowsInSingleRecords) {
  const auto rates = Measure(1e9, 0.01);
  ASSERT_TRUE(rates);
  const double record = static_cast<double>(checkpoint_->experts().shape().record_bytes());
  EXPECT_NEAR(rates->single.typical, record / (0.01 + record / 1e9), record * 5);
  EXPECT_GT(rates->full.typical, 3 * rates->single.typical);
}

TEST_F(RatesTest, AnErrorOfTheDiskIsAnError) {
  FakeClock clock;
  auto faulty = std::make_unique<io::FaultyBackend>(
      Threads(),
      std::vector<io::Fault>{{.kind = io::FaultKind::kDeviceGone, .first_read = 3, .count = 1}}, 1);
  io::ReadQueue queue(std::move(faulty), clock);
  const auto rates = MeasureDisk(*checkpoint_, queue, clock, 0.0, 7);
  ASSERT_FALSE(rates);
  EXPECT_EQ(rates.error().code, ErrorCode::kIo);
}

TEST_F(RatesTest, ReadingTakesNoMoreThanTheCores) {
  ThreadPool threads(2);
  const auto kernels = kernels::SelectKernels("auto");
  ASSERT_TRUE(kernels);
  io::ReadQueue queue(Threads(), Clock::Steady());
  const auto cost = MeasureReadCost(*checkpoint_, queue, **kernels, kernels::ComputeMode::kInt15,
                                    threads, Clock::Steady(), 1 << 20, 0.02);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_GE(*cost, 0);
  EXPECT_LT(*cost, 1e-6);  // a checksum alone is a thousand times faster
}

TEST_F(RatesTest, AnErrorBesideTheArithmeticIsAnError) {
  ThreadPool threads(2);
  const auto kernels = kernels::SelectKernels("auto");
  ASSERT_TRUE(kernels);
  auto faulty = std::make_unique<io::FaultyBackend>(
      Threads(),
      std::vector<io::Fault>{{.kind = io::FaultKind::kDeviceGone, .first_read = 3, .count = 1}}, 1);
  io::ReadQueue queue(std::move(faulty), Clock::Steady());
  const auto cost = MeasureReadCost(*checkpoint_, queue, **kernels, kernels::ComputeMode::kInt15,
                                    threads, Clock::Steady(), 1 << 20, 0.02);
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().code, ErrorCode::kIo);
}

TEST_F(RatesTest, ComputingHasRates) {
  ThreadPool threads(2);
  const auto kernels = kernels::SelectKernels("auto");
  ASSERT_TRUE(kernels);
  const auto rates = MeasureCompute(*checkpoint_, **kernels, kernels::ComputeMode::kInt15, threads,
                                    Clock::Steady(), 1 << 20, 0.01);
  ASSERT_TRUE(rates);
  for (const Range& range :
       {rates->memory, rates->row_weights, rates->dense_pass, rates->expert_pass}) {
    EXPECT_GT(range.low, 0);
    EXPECT_LE(range.low, range.typical);
    EXPECT_LE(range.typical, range.high);
  }
}

TEST(AssumedDisk, IsAtMostWhatWasSaid) {
  const DiskRates rates = AssumedDisk(2e9, 2'764'800);
  EXPECT_EQ(rates.full.high, 2e9);
  EXPECT_LT(rates.single.typical, 2e9);
  EXPECT_GT(rates.single.typical, 1.5e9);
}

}  // namespace
}  // namespace slotstream::plan
