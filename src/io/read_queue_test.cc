// ReadQueue against every fault: each request completes once, with its bytes or a typed error, and
// no read outlives its buffers.
#include "io/read_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "io/faulty_backend.h"
#include "io/test_directory.h"

namespace slotstream::io {
namespace {

using ::testing::HasSubstr;

constexpr std::byte kGuard{0x5a};
constexpr size_t kMaxLength = 4 * kPageSize;
constexpr size_t kSlotBytes = kMaxLength + 2 * kPageSize;  // with a guard page on both sides

bool AllGuard(std::span<const std::byte> bytes) {
  return SameBytes(bytes, std::vector<std::byte>(bytes.size(), kGuard));
}

// Moves on by a microsecond whenever it is asked.
class TickingClock : public Clock {
 public:
  uint64_t NowNanos() const override { return now_ += 1000; }

 private:
  mutable uint64_t now_ = 0;
};

// Reports reads that are still in flight when the backend goes.
class WatchedBackend : public ReadBackend {
 public:
  WatchedBackend(std::unique_ptr<ReadBackend> inner, size_t* abandoned)
      : inner_(std::move(inner)), abandoned_(abandoned) {}
  ~WatchedBackend() override { *abandoned_ = in_flight_; }
  std::string_view name() const override { return "watched"; }
  size_t depth() const override { return inner_->depth(); }
  Status Start(std::span<const BackendRead> reads) override {
    EXPECT_LE(in_flight_ + reads.size(), depth());
    Status status = inner_->Start(reads);
    if (status) in_flight_ += reads.size();
    return status;
  }
  size_t Reap(std::span<BackendResult> out, bool wait) override {
    size_t count = inner_->Reap(out, wait);
    in_flight_ -= count;
    return count;
  }
  void WaitReady() override { inner_->WaitReady(); }

 private:
  std::unique_ptr<ReadBackend> inner_;
  size_t* abandoned_;
  size_t in_flight_ = 0;
};

class ReadQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteTestFile(directory_ / "file", contents_);
    buffered_ = File::Open(directory_ / "file", false).value();
    direct_ = File::Open(directory_ / "file", true).value();
  }

  // Random requests inside the file, tails included, into guarded slots of `memory`.
  std::vector<ReadRequest> RandomRequests(const File& file, size_t count, AlignedBuffer& memory,
                                          uint32_t seed) {
    memory = AlignedBuffer::Allocate(count * kSlotBytes, "a test").value();
    std::memset(memory.data(), static_cast<int>(kGuard), memory.size());
    std::mt19937 rng(seed);
    std::vector<ReadRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      ReadRequest request{.file = &file, .tag = i};
      request.offset = rng() % contents_.size() / file.alignment() * file.alignment();
      if (rng() % 8 == 0) {  // the last page
        request.offset = contents_.size() / kPageSize * kPageSize;
      }
      uint64_t left = contents_.size() - request.offset;
      request.required = static_cast<uint32_t>(1 + rng() % std::min(left, kMaxLength));
      request.length = static_cast<uint32_t>(AlignUp(request.required, file.alignment()));
      request.destination = memory.data() + i * kSlotBytes + kPageSize;
      requests.push_back(request);
    }
    return requests;
  }

  bool BytesRight(const ReadRequest& request) const {
    return std::memcmp(request.destination, contents_.data() + request.offset, request.required) ==
           0;
  }

  static bool GuardsIntact(const ReadRequest& request) {
    size_t behind = kMaxLength - request.length + kPageSize;
    return AllGuard({request.destination - kPageSize, kPageSize}) &&
           AllGuard({request.destination + request.length, behind});
  }

  struct Outcome {
    std::vector<Status> statuses;  // of each request
    size_t errors = 0;
    size_t wrong = 0;  // successes with other bytes than the file's
    ReadStats stats;
  };

  // Submits in random portions, waits in random portions, and checks the exactly-once promise.
  Outcome RunAll(ReadQueue& queue, std::span<const ReadRequest> requests, uint32_t seed) {
    std::mt19937 rng(seed);
    Outcome outcome;
    outcome.statuses.resize(requests.size());
    std::vector<int> completions(requests.size());
    std::vector<ReadCompletion> out;
    size_t submitted = 0;
    while (submitted < requests.size() || queue.outstanding() > 0) {
      size_t portion = std::min<size_t>(rng() % 100, requests.size() - submitted);
      queue.Submit(requests.subspan(submitted, portion));
      submitted += portion;
      size_t min = rng() % 3 == 0 ? 0 : rng() % 80;
      size_t expected = std::min(min, queue.outstanding());
      out.clear();
      EXPECT_GE(queue.Wait(min, out), expected);
      for (ReadCompletion& completion : out) {
        ++completions[completion.tag];
        outcome.errors += !completion.status;
        outcome.wrong += completion.status && !BytesRight(requests[completion.tag]);
        outcome.statuses[completion.tag] = std::move(completion.status);
      }
    }
    out.clear();
    EXPECT_EQ(queue.Wait(1, out), 0u);
    EXPECT_TRUE(std::ranges::all_of(completions, [](int count) { return count == 1; }));
    EXPECT_TRUE(std::ranges::all_of(requests, GuardsIntact));
    outcome.stats = queue.stats();
    EXPECT_EQ(outcome.stats.errors, outcome.errors);
    return outcome;
  }

  Outcome RunWithFaults(const File& file, std::vector<Fault> plan, size_t depth, size_t count,
                        uint32_t seed) {
    AlignedBuffer memory;
    std::vector<ReadRequest> requests = RandomRequests(file, count, memory, seed);
    size_t abandoned = 0;
    auto backend = std::make_unique<FaultyBackend>(
        MakeBackend(BackendKind::kAuto, depth, nullptr).value(), std::move(plan), seed);
    const FaultyBackend& faulty = *backend;
    Outcome outcome;
    {
      ReadQueue queue(std::make_unique<WatchedBackend>(std::move(backend), &abandoned),
                      Clock::Steady());
      outcome = RunAll(queue, requests, seed);
      EXPECT_GT(faulty.faults(), 0u);
    }
    EXPECT_EQ(abandoned, 0u);
    return outcome;
  }

  TestDirectory directory_;
  const std::vector<std::byte> contents_ = RandomBytes((2 << 20) + 777, 1);
  std::unique_ptr<File> buffered_;
  std::unique_ptr<File> direct_;
};

TEST_F(ReadQueueTest, BackendsGiveTheSameBytes) {
  for (const File* file : {buffered_.get(), direct_.get()}) {
    for (size_t depth : {1u, 3u, 64u}) {
      AlignedBuffer memory[2];
      for (BackendKind kind : {BackendKind::kUring, BackendKind::kThreads}) {
        auto backend = MakeBackend(kind, depth, nullptr);
        if (!backend) GTEST_SKIP() << backend.error().message;
        ReadQueue queue(std::move(*backend), Clock::Steady());
        AlignedBuffer& destination = memory[kind == BackendKind::kThreads];
        auto requests = RandomRequests(*file, 1000, destination, 7);
        Outcome outcome = RunAll(queue, requests, 8);
        EXPECT_EQ(outcome.errors, 0u);
        EXPECT_EQ(outcome.wrong, 0u);
        EXPECT_EQ(outcome.stats.reads, 1000 + outcome.stats.retries);
      }
      EXPECT_EQ(std::memcmp(memory[0].data(), memory[1].data(), memory[0].size()), 0);
    }
  }
}

struct FaultCase {
  FaultKind kind;
  double probability;
  // What may come of it: success always, an error of this code, or silent damage (which is for
  // checksums above to find).
  std::optional<ErrorCode> error;
  bool damages = false;
};

class FaultTest : public ReadQueueTest, public ::testing::WithParamInterface<FaultCase> {};

TEST_P(FaultTest, EachRequestEndsOnceWithItsBytesOrATypedError) {
  const FaultCase& fault_case = GetParam();
  for (const File* file : {buffered_.get(), direct_.get()}) {
    for (size_t depth : {1u, 2u, 8u, 64u}) {
      Fault fault{fault_case.kind, 20, Fault::kEveryLater, fault_case.probability};
      Outcome outcome =
          RunWithFaults(*file, {fault}, depth, 400, static_cast<uint32_t>(40 + depth));
      EXPECT_EQ(outcome.errors > 0, fault_case.error.has_value());
      EXPECT_LT(outcome.errors, 400u);
      EXPECT_EQ(outcome.wrong > 0, fault_case.damages);
      for (const Status& status : outcome.statuses) {
        if (status) continue;
        EXPECT_EQ(status.error().code, *fault_case.error) << status.error().message;
        EXPECT_THAT(status.error().message, HasSubstr(file->path()));
        EXPECT_THAT(status.error().message, HasSubstr(" at offset "));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FaultTest,
    ::testing::Values(
        FaultCase{FaultKind::kShortRead, 0.5, {}}, FaultCase{FaultKind::kZeroRead, 0.02, {}},
        FaultCase{FaultKind::kZeroRead, 0.6, ErrorCode::kCorrupt},
        FaultCase{FaultKind::kInterrupted, 0.5, {}}, FaultCase{FaultKind::kTryAgain, 0.5, {}},
        FaultCase{FaultKind::kIoError, 0.02, {}},
        FaultCase{FaultKind::kIoError, 0.6, ErrorCode::kIo}, FaultCase{FaultKind::kLate, 0.3, {}},
        FaultCase{FaultKind::kReordered, 0.5, {}}, FaultCase{FaultKind::kFlippedBit, 0.1, {}, true},
        FaultCase{FaultKind::kZeroedPage, 0.1, {}, true},
        FaultCase{FaultKind::kTruncated, 0.02, ErrorCode::kCorrupt},
        FaultCase{FaultKind::kDeviceGone, 0.01, ErrorCode::kIo},
        FaultCase{FaultKind::kStartRefused, 0.01, ErrorCode::kIo}));

TEST_F(ReadQueueTest, AllFaultsAtOnce) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::vector<Fault> plan;
    for (FaultKind kind : {FaultKind::kShortRead, FaultKind::kZeroRead, FaultKind::kInterrupted,
                           FaultKind::kTryAgain, FaultKind::kIoError, FaultKind::kLate,
                           FaultKind::kReordered, FaultKind::kStartRefused}) {
      plan.push_back({kind, 0, Fault::kEveryLater, kind == FaultKind::kStartRefused ? .005 : .08});
    }
    const File& file = seed % 2 == 0 ? *buffered_ : *direct_;
    Outcome first = RunWithFaults(file, plan, 1 + seed * 5, 500, seed);
    EXPECT_EQ(first.wrong, 0u);
    // The same seed, the same story.
    Outcome second = RunWithFaults(file, plan, 1 + seed * 5, 500, seed);
    EXPECT_EQ(first.stats.reads, second.stats.reads);
    EXPECT_EQ(first.stats.retries, second.stats.retries);
    for (size_t i = 0; i < first.statuses.size(); ++i) {
      EXPECT_EQ(first.statuses[i].has_value(), second.statuses[i].has_value());
    }
  }
}

TEST_F(ReadQueueTest, EndlessFaultsEndInAnError) {
  for (FaultKind kind :
       {FaultKind::kInterrupted, FaultKind::kTryAgain, FaultKind::kIoError, FaultKind::kZeroRead}) {
    Outcome outcome = RunWithFaults(*buffered_, {{kind, 0, Fault::kEveryLater}}, 4, 20, 3);
    EXPECT_EQ(outcome.errors, 20u);
  }
}

TEST_F(ReadQueueTest, FailuresAreCountedInARowAndRepeatedThrice) {
  for (uint64_t failures : {3u, 4u}) {
    Outcome outcome = RunWithFaults(*buffered_, {{FaultKind::kIoError, 0, failures}}, 1, 1, 5);
    EXPECT_EQ(outcome.errors, failures == 3 ? 0u : 1u);
    EXPECT_EQ(outcome.stats.retries, 3u);
  }
  // New bytes start the count again: short reads between errors never add up to a failure.
  std::vector<Fault> plan;
  for (uint64_t i = 0; i < 20; ++i) {
    plan.push_back({i % 3 == 2 ? FaultKind::kShortRead : FaultKind::kIoError, i});
  }
  EXPECT_EQ(RunWithFaults(*buffered_, plan, 1, 1, 6).errors, 0u);
}

TEST_F(ReadQueueTest, ATruncatedFileIsCorrupt) {
  ASSERT_EQ(truncate((directory_ / "file").c_str(), 10000), 0);
  for (const File* file : {buffered_.get(), direct_.get()}) {
    for (BackendKind kind : {BackendKind::kAuto, BackendKind::kThreads}) {
      ReadQueue queue(MakeBackend(kind, 4, nullptr).value(), Clock::Steady());
      auto memory = AlignedBuffer::Allocate(4 * kPageSize, "a test").value();
      std::vector<ReadRequest> requests = {
          {file, 8192, memory.data(), kPageSize, 1808, 0},
          {file, 8192, memory.data() + kPageSize, kPageSize, 1809, 1},
          {file, 12288, memory.data() + 2 * kPageSize, kPageSize, 1, 2},
          {file, 12288, memory.data() + 3 * kPageSize, kPageSize, 0, 3},
      };
      queue.Submit(requests);
      std::vector<ReadCompletion> out;
      ASSERT_EQ(queue.Wait(9, out), 4u);
      for (const ReadCompletion& completion : out) {
        bool fits = completion.tag == 0 || completion.tag == 3;
        ASSERT_EQ(completion.status.has_value(), fits) << completion.tag;
        if (fits) continue;
        EXPECT_EQ(completion.status.error().code, ErrorCode::kCorrupt);
        EXPECT_THAT(completion.status.error().message, HasSubstr("file has 10000"));
      }
    }
  }
}

TEST_F(ReadQueueTest, RefusesRequestsThatBreakTheRules) {
  ReadQueue queue(MakeBackend(BackendKind::kAuto, 4, nullptr).value(), Clock::Steady());
  auto memory = AlignedBuffer::Allocate(2 * kPageSize, "a test").value();
  std::vector<ReadRequest> requests = {
      {nullptr, 0, memory.data(), kPageSize, 1, 0},
      {buffered_.get(), 0, memory.data(), 10, 11, 1},
      {buffered_.get(), ~uint64_t{0}, memory.data(), 10, 10, 2},
  };
  if (direct_->direct()) {
    requests.push_back({direct_.get(), 512, memory.data(), kPageSize, 1, 3});
    requests.push_back({direct_.get(), 0, memory.data(), 512, 1, 4});
    requests.push_back({direct_.get(), 0, memory.data() + 512, kPageSize, 1, 5});
  }
  requests.push_back({buffered_.get(), 0, nullptr, 0, 0, 6});  // nothing to do is no error
  queue.Submit(requests);
  EXPECT_EQ(queue.outstanding(), requests.size());
  std::vector<ReadCompletion> out;
  ASSERT_EQ(queue.Poll(out), requests.size());
  for (const ReadCompletion& completion : out) {
    EXPECT_EQ(completion.status.has_value(), completion.tag == 6);
    if (completion.status) continue;
    EXPECT_EQ(completion.status.error().code,
              completion.tag == 2 ? ErrorCode::kCorrupt : ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(queue.stats().reads, 0u);
}

TEST_F(ReadQueueTest, NoReadOutlivesItsBuffers) {
  for (BackendKind kind : {BackendKind::kAuto, BackendKind::kThreads}) {
    for (bool destroy : {false, true}) {
      for (bool late : {false, true}) {
        AlignedBuffer memory;
        auto requests = RandomRequests(*direct_, 300, memory, 9);
        size_t abandoned = 99;
        std::vector<Fault> plan;
        if (late) plan.push_back({FaultKind::kLate, 0, Fault::kEveryLater, 0.5});
        auto queue = std::make_unique<ReadQueue>(
            std::make_unique<WatchedBackend>(
                std::make_unique<FaultyBackend>(MakeBackend(kind, 64, nullptr).value(), plan, 1),
                &abandoned),
            Clock::Steady());
        queue->Submit(requests);
        std::vector<ReadCompletion> out;
        queue->Wait(100, out);
        if (destroy) {
          queue.reset();
          EXPECT_EQ(abandoned, 0u);
        } else {
          queue->Drain();
          EXPECT_EQ(queue->outstanding(), 0u);
          EXPECT_EQ(queue->Poll(out), 0u);
        }
        std::memset(memory.data(), static_cast<int>(kGuard), memory.size());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_TRUE(AllGuard(memory.span()));
        if (destroy) continue;
        Outcome again = RunAll(*queue, requests, 10);
        EXPECT_EQ(again.errors + again.wrong, 0u) << "the queue serves on after Drain";
      }
    }
  }
}

TEST_F(ReadQueueTest, StartsInTheOrderOfSubmission) {
  AlignedBuffer memory;
  auto requests = RandomRequests(*buffered_, 200, memory, 11);
  ReadQueue queue(std::make_unique<FaultyBackend>(
                      MakeBackend(BackendKind::kAuto, 3, nullptr).value(), std::vector<Fault>{}, 1),
                  Clock::Steady());
  queue.Submit(requests);
  std::vector<ReadCompletion> out;
  queue.Wait(requests.size(), out);
  ASSERT_EQ(out.size(), requests.size());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i].tag, i);
}

TEST_F(ReadQueueTest, CountsBytesAndTime) {
  TickingClock clock;
  ReadQueue queue(MakeBackend(BackendKind::kThreads, 2, nullptr).value(), clock);
  std::vector<ReadCompletion> out;
  queue.Poll(out);
  EXPECT_EQ(queue.stats().busy_nanos + queue.stats().wait_nanos, 0u);
  std::vector<std::byte> memory(1000);
  ReadRequest request{buffered_.get(), 5, memory.data(), 1000, 1000, 1};
  queue.Submit(std::span(&request, 1));
  EXPECT_GT(queue.stats().busy_nanos, 0u);
  while (queue.Poll(out) == 0) std::this_thread::yield();
  EXPECT_EQ(queue.stats().wait_nanos, 0u);
  uint64_t busy = queue.stats().busy_nanos;
  EXPECT_GT(busy, 0u);
  EXPECT_EQ(queue.stats().busy_nanos, busy) << "idle: the time stands";
  EXPECT_EQ(queue.stats().bytes, 1000u);
  EXPECT_EQ(queue.stats().reads, 1u);
}

}  // namespace
}  // namespace slotstream::io
