// Every backend against the contract of backend.h: the same bytes from each, and typed refusals.
#include "io/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "io/test_directory.h"

namespace slotstream::io {
namespace {

using ::testing::HasSubstr;

class BackendTest : public ::testing::TestWithParam<BackendKind> {};

TEST_P(BackendTest, ReadsRandomRangesAtEveryDepth) {
  TestDirectory directory;
  const std::vector<std::byte> contents = RandomBytes((1 << 20) + 777, 1);
  WriteTestFile(directory / "file", contents);
  for (bool direct : {false, true}) {
    auto file = File::Open(directory / "file", direct).value();
    const size_t alignment = file->alignment();
    for (size_t depth : {1u, 2u, 7u, 64u}) {
      auto backend = MakeBackend(GetParam(), depth, nullptr);
      if (!backend) GTEST_SKIP() << backend.error().message;
      ASSERT_EQ((*backend)->depth(), depth);
      constexpr size_t kSlot = 5 * kPageSize;
      auto memory = AlignedBuffer::Allocate(depth * kSlot, "a test").value();
      std::vector<BackendRead> in_flight(depth);
      std::vector<bool> busy(depth);
      std::vector<BackendResult> results(depth);
      std::mt19937 rng(static_cast<uint32_t>(depth));
      size_t started = 0, reaped = 0;
      constexpr size_t kReads = 1500;
      while (reaped < kReads) {
        std::vector<BackendRead> batch;
        for (size_t i = 0; i < depth && started < kReads; ++i) {
          if (busy[i] || rng() % 4 == 0) continue;
          uint64_t offset = rng() % (contents.size() + 3000) / alignment * alignment;
          uint32_t length =
              static_cast<uint32_t>((rng() % (3 * kPageSize) / alignment + 1) * alignment);
          std::byte* slot = memory.data() + i * kSlot;
          std::memset(slot, 0x5a, kSlot);
          in_flight[i] = {i, file.get(), offset, slot + kPageSize, length};
          batch.push_back(in_flight[i]);
          busy[i] = true;
          ++started;
        }
        if (!batch.empty()) {
          ASSERT_TRUE((*backend)->Start(batch));
        }
        size_t count = (*backend)->Reap(results, rng() % 2 == 0);
        for (const BackendResult& result : std::span(results).first(count)) {
          ASSERT_LT(result.id, depth);
          ASSERT_TRUE(busy[result.id]) << "completed twice";
          busy[result.id] = false;
          ++reaped;
          const BackendRead& read = in_flight[result.id];
          uint64_t there = std::min<uint64_t>(contents.size(), read.offset + read.length) -
                           std::min<uint64_t>(contents.size(), read.offset);
          ASSERT_EQ(result.result, static_cast<int64_t>(there));
          EXPECT_EQ(std::memcmp(read.destination, contents.data() + read.offset, there), 0);
          EXPECT_EQ(read.destination[-1], std::byte{0x5a});
          EXPECT_EQ(read.destination[read.length], std::byte{0x5a});
        }
      }
      EXPECT_EQ((*backend)->Reap(results, true), 0u) << "nothing in flight: must not block";
    }
  }
}

TEST_P(BackendTest, ReportsErrnoOfAFailedRead) {
  TestDirectory directory;
  WriteTestFile(directory / "file", RandomBytes(10, 1));
  auto backend = MakeBackend(GetParam(), 4, nullptr);
  if (!backend) GTEST_SKIP() << backend.error().message;
  auto file = File::Open(directory / "file", false).value();
  BackendRead read{7, file.get(), 0, nullptr, 10};  // no memory there
  ASSERT_TRUE((*backend)->Start(std::span(&read, 1)));
  BackendResult result;
  ASSERT_EQ((*backend)->Reap(std::span(&result, 1), true), 1u);
  EXPECT_EQ(result.id, 7u);
  EXPECT_EQ(result.result, -EFAULT);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BackendTest,
                         ::testing::Values(BackendKind::kUring, BackendKind::kThreads),
                         [](const auto& test) {
                           return test.param == BackendKind::kUring ? "Uring" : "Threads";
                         });

TEST(MakeBackend, RefusesImpossibleDepths) {
  for (size_t depth : {size_t{0}, kMaxBackendDepth + 1}) {
    auto backend = MakeBackend(BackendKind::kAuto, depth, nullptr);
    ASSERT_FALSE(backend);
    EXPECT_EQ(backend.error().code, ErrorCode::kInvalidArgument);
  }
}

// Forbids io_uring to the calling thread and its children, as container sandboxes do.
bool ForbidUring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the system call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(MakeBackend, FallsBackToThreadsInASandboxAndSaysWhy) {
  bool forbidden = false;
  std::thread sandboxed([&] {
    forbidden = ForbidUring();
    if (!forbidden) return;
    auto uring = MakeBackend(BackendKind::kUring, 8, nullptr);
    ASSERT_FALSE(uring);
    EXPECT_EQ(uring.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(uring.error().message, HasSubstr("seccomp"));
    std::string note;
    auto backend = MakeBackend(BackendKind::kAuto, 8, &note);
    ASSERT_TRUE(backend) << backend.error().message;
    EXPECT_EQ((*backend)->name(), "threads");
    EXPECT_THAT(note, HasSubstr("Operation not permitted"));
  });
  sandboxed.join();
  if (!forbidden) GTEST_SKIP() << "no seccomp filters here";
}

TEST(MakeBackend, UringWithoutDescriptorsIsAResourceLimit) {
  if (!MakeBackend(BackendKind::kUring, 8, nullptr)) GTEST_SKIP() << "no io_uring here";
  std::string note = "old";
  ASSERT_EQ(MakeBackend(BackendKind::kAuto, 8, &note).value()->name(), "io_uring");
  EXPECT_EQ(note, "");
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  auto backend = MakeBackend(BackendKind::kUring, 8, nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, ErrorCode::kResourceLimit);
  EXPECT_THAT(backend.error().message, HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace slotstream::io
