// The faults themselves: each must happen when, where and as often as the plan says.
#include "io/faulty_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <set>

#include "io/test_directory.h"

namespace slotstream::io {
namespace {

constexpr size_t kReads = 12;
constexpr uint32_t kLength = 2 * kPageSize;

class FaultyBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteTestFile(directory_ / "file", contents_);
    file_ = File::Open(directory_ / "file", false).value();
  }

  // Starts kReads neighbouring reads at once and returns their results in the order of delivery;
  // `memory_` then holds what they read.
  std::vector<BackendResult> Run(FaultyBackend& backend) {
    memory_.assign(kReads * kLength, std::byte{0x5a});
    std::vector<BackendRead> reads;
    for (uint64_t i = 0; i < kReads; ++i) {
      reads.push_back({i, file_.get(), i * kLength, memory_.data() + i * kLength, kLength});
    }
    EXPECT_TRUE(backend.Start(reads));
    std::vector<BackendResult> results(kReads);
    size_t count = 0;
    while (count < kReads) {
      size_t more = backend.Reap(std::span(results).subspan(count), true);
      EXPECT_GT(more, 0u);
      if (more == 0) break;
      count += more;
    }
    EXPECT_EQ(backend.Reap(results, true), 0u);
    return results;
  }

  std::unique_ptr<FaultyBackend> Make(std::vector<Fault> plan, uint64_t seed = 1) {
    return std::make_unique<FaultyBackend>(
        MakeBackend(BackendKind::kThreads, kReads, nullptr).value(), std::move(plan), seed);
  }

  // Bits of read `i` that differ from the file.
  size_t WrongBits(size_t i) const {
    size_t bits = 0;
    for (size_t k = i * kLength; k < (i + 1) * kLength; ++k) {
      bits +=
          static_cast<size_t>(std::popcount(std::to_integer<unsigned>(memory_[k] ^ contents_[k])));
    }
    return bits;
  }

  TestDirectory directory_;
  const std::vector<std::byte> contents_ = RandomBytes(kReads * kLength, 1);
  std::unique_ptr<File> file_;
  std::vector<std::byte> memory_;
};

TEST_F(FaultyBackendTest, ResultsOfOneStruckRead) {
  const std::pair<FaultKind, int64_t> cases[] = {
      {FaultKind::kZeroRead, 0},         {FaultKind::kInterrupted, -EINTR},
      {FaultKind::kTryAgain, -EAGAIN},   {FaultKind::kIoError, -EIO},
      {FaultKind::kFlippedBit, kLength}, {FaultKind::kZeroedPage, kLength},
  };
  for (auto [kind, expected] : cases) {
    auto backend = Make({{kind, 5}});
    std::vector<BackendResult> results = Run(*backend);
    for (size_t i = 0; i < kReads; ++i) {
      EXPECT_EQ(results[i].id, i);
      EXPECT_EQ(results[i].result, i == 5 ? expected : int64_t{kLength});
      EXPECT_EQ(WrongBits(i) > 0, i == 5);
    }
    if (kind == FaultKind::kFlippedBit) {
      EXPECT_EQ(WrongBits(5), 1u);
    }
    if (kind == FaultKind::kZeroedPage) {
      size_t zeros = static_cast<size_t>(
          std::count(memory_.begin() + 5 * kLength, memory_.begin() + 6 * kLength, std::byte{}));
      EXPECT_GE(zeros, kPageSize);
      EXPECT_LT(zeros, kPageSize + 200);
    }
    EXPECT_EQ(backend->reads(), kReads);
    EXPECT_EQ(backend->faults(), 1u);
  }
}

TEST_F(FaultyBackendTest, ShortReadsLeaveNothingBehindTheirEnd) {
  auto backend = Make({{FaultKind::kShortRead, 2, 3}});
  std::vector<BackendResult> results = Run(*backend);
  for (size_t i = 0; i < kReads; ++i) {
    bool is_short = i >= 2 && i < 5;
    EXPECT_EQ(results[i].result < kLength, is_short);
    EXPECT_GT(results[i].result, 0);
    if (is_short) {
      EXPECT_EQ(memory_[(i + 1) * kLength - 1], std::byte{0xdb});
    }
  }
}

TEST_F(FaultyBackendTest, ATruncatedFileStaysTruncated) {
  auto backend = Make({{FaultKind::kTruncated, 5}});
  for (int round = 0; round < 2; ++round) {
    std::vector<BackendResult> results = Run(*backend);
    int64_t total = 0;
    for (const BackendResult& result : results) {
      total += result.result;
      if (result.id > 5) {
        EXPECT_EQ(result.result, 0);
      }
    }
    EXPECT_GE(total, 5 * kLength);
    EXPECT_LT(total, 6 * kLength);
  }
}

TEST_F(FaultyBackendTest, AGoneDeviceStaysGone) {
  auto backend = Make({{FaultKind::kDeviceGone, 5}});
  for (const BackendResult& result : Run(*backend)) {
    EXPECT_EQ(result.result, result.id < 5 ? int64_t{kLength} : -ENODEV);
  }
  for (const BackendResult& result : Run(*backend)) EXPECT_EQ(result.result, -ENODEV);
}

TEST_F(FaultyBackendTest, LateReadsComeLastAndWriteLate) {
  auto backend = Make({{FaultKind::kLate, 0, 2}});
  std::vector<BackendRead> reads;
  memory_.assign(4 * kLength, std::byte{0x5a});
  for (uint64_t i = 0; i < 4; ++i) {
    reads.push_back({i, file_.get(), i * kLength, memory_.data() + i * kLength, kLength});
  }
  ASSERT_TRUE(backend->Start(reads));
  std::vector<BackendResult> results(4);
  ASSERT_EQ(backend->Reap(results, true), 2u);
  EXPECT_EQ(results[0].id, 2u);
  EXPECT_EQ(results[1].id, 3u);
  EXPECT_EQ(memory_[0], std::byte{0x5a}) << "not written yet";
  ASSERT_EQ(backend->Reap(results, true), 2u);
  EXPECT_EQ(results[0].id, 0u);
  EXPECT_EQ(memory_[0], contents_[0]);
}

TEST_F(FaultyBackendTest, ReorderingDependsOnTheSeedAlone) {
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t seed : {1, 2, 3, 1, 2, 3}) {
    auto backend = Make({{FaultKind::kReordered, 0, Fault::kEveryLater}}, seed);
    std::vector<uint64_t> order;
    for (const BackendResult& result : Run(*backend)) {
      EXPECT_EQ(result.result, kLength);
      order.push_back(result.id);
    }
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST_F(FaultyBackendTest, RefusedStartsTouchNothing) {
  auto backend = Make({{FaultKind::kStartRefused, 1}});
  memory_.assign(2 * kLength, std::byte{0x5a});
  BackendRead reads[2] = {{0, file_.get(), 0, memory_.data(), kLength},
                          {1, file_.get(), 0, memory_.data() + kLength, kLength}};
  EXPECT_FALSE(backend->Start(reads));
  BackendResult result;
  EXPECT_EQ(backend->Reap(std::span(&result, 1), true), 0u);
  EXPECT_EQ(memory_[0], std::byte{0x5a});
  backend->AddFault({FaultKind::kIoError, 2});
  ASSERT_TRUE(backend->Start(std::span(reads).first(1)));
  ASSERT_EQ(backend->Reap(std::span(&result, 1), true), 1u);
  EXPECT_EQ(result.result, -EIO);
}

}  // namespace
}  // namespace slotstream::io
