#include "io/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "io/file_lock.h"
#include "io/test_directory.h"

namespace slotstream::io {
namespace {

using ::testing::HasSubstr;

TEST(WriteFileAtomically, CreatesAndReplaces) {
  TestDirectory directory;
  std::string path = directory / "file";
  ASSERT_TRUE(WriteFileAtomically(path, Bytes("first")));
  EXPECT_EQ(ReadTestFile(path), "first");
  WriteTestFile(path + ".tmp", Bytes("left by a killed process, longer than the new"));
  ASSERT_TRUE(WriteFileAtomically(path, Bytes("second")));
  EXPECT_EQ(ReadTestFile(path), "second");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  ASSERT_TRUE(WriteFileAtomically(path, {}));
  EXPECT_EQ(ReadTestFile(path), "");
}

TEST(WriteFileAtomically, DoesNotFollowALinkAtTheTemporaryName) {
  TestDirectory directory;
  WriteTestFile(directory / "precious", Bytes("precious"));
  ASSERT_EQ(symlink((directory / "precious").c_str(), (directory / "file.tmp").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(directory / "file", Bytes("new")));
  EXPECT_EQ(ReadTestFile(directory / "precious"), "precious");
  EXPECT_EQ(ReadTestFile(directory / "file"), "new");
}

TEST(WriteFileAtomically, AFailureLeavesTheOldFile) {
  TestDirectory directory;
  std::string path = directory / "file";
  ASSERT_TRUE(WriteFileAtomically(path, Bytes("old")));

  auto* old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 1000;  // the write fails midway
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  Status status = WriteFileAtomically(path, RandomBytes(5000, 1));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kResourceLimit);
  EXPECT_EQ(ReadTestFile(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));

  // The rename fails: the target is a directory.
  std::filesystem::create_directories(directory / "target/inside");
  status = WriteFileAtomically(directory / "target", Bytes("new"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_FALSE(std::filesystem::exists(directory / "target.tmp"));

  // The temporary's name is taken by a directory.
  std::filesystem::create_directories(path + ".tmp");
  EXPECT_FALSE(WriteFileAtomically(path, Bytes("new")));
  EXPECT_EQ(ReadTestFile(path), "old");
  EXPECT_EQ(WriteFileAtomically(directory / "no/file", Bytes("x")).error().code,
            ErrorCode::kNotFound);
}

TEST(WriteFileAtomically, AKilledWriterLeavesOldOrNew) {
  TestDirectory directory;
  std::string path = directory / "file";
  const std::string a(3'000'000, 'a'), b(2'000'000, 'b');
  ASSERT_TRUE(WriteFileAtomically(path, Bytes(a)));
  for (int round = 0; round < 12; ++round) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {
        if (!WriteFileAtomically(path, Bytes(b)) || !WriteFileAtomically(path, Bytes(a))) _exit(1);
      }
    }
    usleep(static_cast<useconds_t>(1000 * (3 + 5 * round)));
    kill(child, SIGKILL);
    int exit_status = 0;
    ASSERT_EQ(waitpid(child, &exit_status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(exit_status));
    std::string now = ReadTestFile(path);
    EXPECT_TRUE(now == a || now == b) << now.size();
  }
}

TEST(RenameDirectoryAtomically, MovesOrRefuses) {
  TestDirectory directory;
  std::filesystem::create_directories(directory / "new");
  WriteTestFile(directory / "new/file", Bytes("x"));
  ASSERT_TRUE(RenameDirectoryAtomically(directory / "new/", directory / "final"));
  EXPECT_EQ(ReadTestFile(directory / "final/file"), "x");
  EXPECT_FALSE(std::filesystem::exists(directory / "new"));

  std::filesystem::create_directories(directory / "deep/empty");
  ASSERT_TRUE(RenameDirectoryAtomically(directory / "final", directory / "deep/empty"));
  EXPECT_EQ(ReadTestFile(directory / "deep/empty/file"), "x");

  std::filesystem::create_directories(directory / "second");
  Status status = RenameDirectoryAtomically(directory / "second", directory / "deep/empty");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("something is there already"));
  EXPECT_EQ(ReadTestFile(directory / "deep/empty/file"), "x");

  EXPECT_EQ(RenameDirectoryAtomically(directory / "none", directory / "x").error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(SyncDirectory(directory / "none").error().code, ErrorCode::kNotFound);
  if (access("/dev/shm", W_OK) != 0) return;
  TestDirectory elsewhere("/dev/shm");
  struct stat here, there;
  ASSERT_EQ(stat(directory.path().c_str(), &here), 0);
  ASSERT_EQ(stat(elsewhere.path().c_str(), &there), 0);
  if (here.st_dev == there.st_dev) return;
  status = RenameDirectoryAtomically(directory / "second", elsewhere / "second");
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("different file systems"));
}

TEST(FileLock, ExcludesOtherHandlesUntilItGoes) {
  TestDirectory directory;
  std::string path = directory / "lock";
  WriteTestFile(path, Bytes("1234567890123\n"));  // an earlier owner's longer text
  auto lock = FileLock::Acquire(path);
  ASSERT_TRUE(lock) << lock.error().message;
  EXPECT_EQ(ReadTestFile(path), std::to_string(getpid()) + "\n");
  auto second = FileLock::Acquire(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kResourceLimit);
  EXPECT_THAT(second.error().message,
              HasSubstr("locked by process " + std::to_string(getpid()) + ";"));
  lock->reset();
  EXPECT_TRUE(FileLock::Acquire(path));
  EXPECT_EQ(FileLock::Acquire(directory / "no/lock").error().code, ErrorCode::kNotFound);
}

TEST(FileLock, ExcludesOtherProcessesAndDiesWithThem) {
  TestDirectory directory;
  std::string path = directory / "lock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto lock = FileLock::Acquire(path);
    char held = lock ? 'y' : 'n';
    if (write(ready[1], &held, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char held = '?';
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  auto lock = FileLock::Acquire(path);
  ASSERT_FALSE(lock);
  EXPECT_THAT(lock.error().message, HasSubstr("process " + std::to_string(child)));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(FileLock::Acquire(path));
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace slotstream::io
