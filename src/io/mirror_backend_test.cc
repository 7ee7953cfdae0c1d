#include "io/mirror_backend.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "io/read_queue.h"
#include "io/test_directory.h"
#include "io/thread_backend.h"

namespace slotstream::io {
namespace {

class ManualClock : public Clock {
 public:
  uint64_t NowNanos() const override { return now; }
  uint64_t now = 1;
};

// Two disks of different rates, one read after another on each. Bytes are the file's.
class TwoDisks : public ReadBackend {
 public:
  TwoDisks(ManualClock& clock, const File* second, double first_rate, double second_rate)
      : clock_(clock), second_(second), rates_{first_rate, second_rate} {}
  std::string_view name() const override { return "two disks"; }
  size_t depth() const override { return 64; }
  Status Start(std::span<const BackendRead> reads) override {
    for (const BackendRead& read : reads) {
      const size_t disk = read.file == second_ ? 1 : 0;
      free_at_[disk] =
          std::max(free_at_[disk], clock_.now) + static_cast<uint64_t>(read.length / rates_[disk]);
      in_flight_.emplace(free_at_[disk], std::pair(disk, read));
    }
    return {};
  }
  size_t Reap(std::span<BackendResult> out, bool wait) override {
    if (wait && !in_flight_.empty()) clock_.now = std::max(clock_.now, in_flight_.begin()->first);
    size_t count = 0;
    while (count < out.size() && !in_flight_.empty() && in_flight_.begin()->first <= clock_.now) {
      const auto& [disk, read] = in_flight_.begin()->second;
      out[count++] = {read.id, disk == broken ? -EIO : int64_t{read.length}};
      in_flight_.erase(in_flight_.begin());
    }
    return count;
  }
  void WaitReady() override {}

  size_t broken = 2;  // the disk that only fails

 private:
  ManualClock& clock_;
  const File* second_;
  double rates_[2];
  uint64_t free_at_[2] = {0, 0};
  std::multimap<uint64_t, std::pair<size_t, BackendRead>> in_flight_;
};

struct Harness {
  Harness(double first_rate, double second_rate) {
    WriteTestFile(directory / "a", RandomBytes(kPageSize * 64, 1));
    WriteTestFile(directory / "b", RandomBytes(kPageSize * 64, 1));
    first = File::Open(directory / "a", false).value();
    second = File::Open(directory / "b", false).value();
    auto inner = std::make_unique<TwoDisks>(clock, second.get(), first_rate, second_rate);
    disks = inner.get();
    std::vector<std::pair<const File*, const File*>> copies = {{first.get(), second.get()}};
    auto mirrored = std::make_unique<MirrorBackend>(std::move(inner), copies, clock);
    mirror = mirrored.get();
    queue = std::make_unique<ReadQueue>(std::move(mirrored), clock);
    memory = AlignedBuffer::Allocate(1 << 20, "a test").value();
  }
  // `count` reads of 256 KiB, eight outstanding at a time. True if all succeeded.
  bool Read(int count) {
    std::vector<ReadCompletion> done;
    bool right = true;
    for (int i = 0; i < count || queue->outstanding() > 0;) {
      for (; i < count && queue->outstanding() < 8; ++i) {
        const ReadRequest request = {.file = first.get(),
                                     .offset = 0,
                                     .destination = memory.data(),
                                     .length = 1 << 18,
                                     .required = 1 << 18,
                                     .tag = 0};
        queue->Submit(std::span(&request, 1));
      }
      done.clear();
      queue->Wait(1, done);
      for (const ReadCompletion& completion : done) right &= completion.status.has_value();
    }
    return right;
  }

  TestDirectory directory;
  ManualClock clock;
  std::unique_ptr<File> first, second;
  TwoDisks* disks = nullptr;
  MirrorBackend* mirror = nullptr;
  std::unique_ptr<ReadQueue> queue;
  AlignedBuffer memory;
};

TEST(MirrorBackend, SharesReadsByRate) {
  Harness harness(3.0, 1.0);
  ASSERT_TRUE(harness.Read(2000));
  harness.clock.now = 1;
  const uint64_t first = harness.mirror->bytes(0), second = harness.mirror->bytes(1);
  EXPECT_EQ(first + second, 2000ull << 18);
  EXPECT_NEAR(static_cast<double>(first) / static_cast<double>(second), 3.0, 0.4);
}

TEST(MirrorBackend, TwoDisksAreFasterThanOne) {
  Harness both(1.0, 1.0);
  ASSERT_TRUE(both.Read(1000));
  EXPECT_LT(static_cast<double>(both.clock.now), 0.55 * 1000 * (1 << 18));
}

TEST(MirrorBackend, WhatOneDiskLacksTheOtherHas) {
  for (const size_t broken : {0u, 1u}) {
    Harness harness(2.0, 2.0);
    harness.disks->broken = broken;
    EXPECT_TRUE(harness.Read(200));
    EXPECT_EQ(harness.mirror->bytes(broken), 0u);
    EXPECT_EQ(harness.mirror->bytes(1 - broken), 200ull << 18);
  }
}

// With real files: the bytes are the same wherever they came from.
TEST(MirrorBackend, BringsTheSameBytes) {
  TestDirectory directory;
  const std::vector<std::byte> contents = RandomBytes(1 << 20, 4);
  WriteTestFile(directory / "a", contents);
  WriteTestFile(directory / "b", contents);
  const auto first = File::Open(directory / "a", false).value();
  const auto second = File::Open(directory / "b", false).value();
  std::vector<std::pair<const File*, const File*>> copies = {{first.get(), second.get()}};
  auto mirrored =
      std::make_unique<MirrorBackend>(MakeThreadBackend(8).value(), copies, Clock::Steady());
  const MirrorBackend* mirror = mirrored.get();
  ReadQueue queue(std::move(mirrored), Clock::Steady());
  auto memory = AlignedBuffer::Allocate(contents.size(), "a test").value();
  std::vector<ReadRequest> requests;
  for (uint32_t at = 0; at < contents.size(); at += kPageSize) {
    requests.push_back({.file = first.get(),
                        .offset = at,
                        .destination = memory.data() + at,
                        .length = kPageSize,
                        .required = kPageSize,
                        .tag = at});
  }
  queue.Submit(requests);
  std::vector<ReadCompletion> done;
  queue.Wait(requests.size(), done);
  ASSERT_EQ(done.size(), requests.size());
  for (const ReadCompletion& completion : done) EXPECT_TRUE(completion.status);
  EXPECT_TRUE(std::equal(contents.begin(), contents.end(), memory.data()));
  EXPECT_GT(mirror->bytes(0), 0u);
  EXPECT_GT(mirror->bytes(1), 0u);
}

}  // namespace
}  // namespace slotstream::io
