#include "checkpoint/staged_read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "checkpoint/synthetic_checkpoint.h"
#include "io/faulty_backend.h"
#include "io/test_directory.h"

namespace slotstream::checkpoint {
namespace {

class StagedReadTest : public ::testing::TestWithParam<bool> {
 protected:
  StagedReadTest() : bytes_(io::RandomBytes(3'000'001, 1)) {
    io::WriteTestFile(directory_ / "data", bytes_);
    file_ = std::move(*io::File::Open(directory_ / "data", GetParam()));
  }

  io::TestDirectory directory_;
  std::vector<std::byte> bytes_;
  std::unique_ptr<io::File> file_;
};

// Ranges of any alignment, lengths around multiples of a read, and up to the last byte of the file.
TEST_P(StagedReadTest, AnyRanges) {
  std::mt19937 rng(2);
  std::vector<std::vector<FileRange>> jobs(60);
  for (auto& job : jobs) {
    for (uint32_t i = rng() % 4; i > 0; --i) {
      const uint64_t length = rng() % 3 * kStagedReadBytes + 3000 - rng() % 3000 +
                              (rng() % 2 == 0 ? kStagedReadBytes - 3000 : 0);
      const uint64_t last = bytes_.size() - length;
      job.push_back({file_.get(), rng() % 4 == 0 ? last : rng() % last, length});
    }
  }
  auto queue = TestQueue();
  size_t next = 0;
  Status status = ReadStaged(
      *queue, jobs.size(), [&](size_t job, std::vector<FileRange>& out) { out = jobs[job]; },
      [&](size_t job, std::span<const std::byte* const> data) -> Status {
        EXPECT_EQ(job, next++);
        EXPECT_EQ(data.size(), jobs[job].size());
        for (size_t i = 0; i < data.size(); ++i) {
          const FileRange& range = jobs[job][i];
          EXPECT_TRUE(std::equal(data[i], data[i] + range.bytes,
                                 bytes_.begin() + static_cast<ptrdiff_t>(range.offset)));
        }
        return {};
      });
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(next, jobs.size());
}

TEST_P(StagedReadTest, AnErrorEndsTheRunAndDrainsTheQueue) {
  auto inner = io::MakeBackend(io::BackendKind::kThreads, 8, nullptr);
  auto faulty = std::make_unique<io::FaultyBackend>(
      std::move(*inner),
      std::vector<io::Fault>{
          {.kind = io::FaultKind::kIoError, .first_read = 20, .count = io::Fault::kEveryLater}},
      1);
  io::ReadQueue queue(std::move(faulty), Clock::Steady());
  size_t consumed = 0;
  auto run = [&] {
    return ReadStaged(
        queue, 100,
        [&](size_t job, std::vector<FileRange>& out) {
          out.push_back({file_.get(), job * 10'000, 10'000});
        },
        [&](size_t, std::span<const std::byte* const>) -> Status {
          ++consumed;
          return {};
        });
  };
  Status status = run();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(queue.outstanding(), 0u);
  EXPECT_LE(consumed, 20u);
  EXPECT_GE(consumed, 15u);
}

TEST_P(StagedReadTest, TheConsumerCanStop) {
  auto queue = TestQueue();
  Status status = ReadStaged(
      *queue, 100,
      [&](size_t job, std::vector<FileRange>& out) { out.push_back({file_.get(), job, 5000}); },
      [&](size_t job, std::span<const std::byte* const>) -> Status {
        return job < 7 ? Status() : Fail(ErrorCode::kCancelled, "enough");
      });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(queue->outstanding(), 0u);
}

INSTANTIATE_TEST_SUITE_P(DirectAndBuffered, StagedReadTest, ::testing::Bool());

}  // namespace
}  // namespace slotstream::checkpoint
