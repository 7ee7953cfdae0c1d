#include "io/file_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "base/aligned_buffer.h"
#include "io/test_directory.h"

namespace slotstream::io {
namespace {

using ::testing::HasSubstr;

TEST(FileWriter, AppendsOfEverySizeArriveInOrder) {
  TestDirectory directory;
  const std::vector<std::byte> contents = RandomBytes(20'000'000, 1);
  WriteTestFile(directory / "file", Bytes("old contents"));
  auto writer = FileWriter::Create(directory / "file").value();
  std::mt19937 rng(2);
  size_t done = 0;
  while (done < contents.size()) {
    size_t most = rng() % 10 == 0 ? 9'000'000 : 200'000;
    size_t count = std::min<size_t>(rng() % most, contents.size() - done);
    ASSERT_TRUE(writer->Append(std::span(contents).subspan(done, count)));
    done += count;
    EXPECT_EQ(writer->size(), done);
    if (rng() % 20 == 0) {
      ASSERT_TRUE(writer->Sync());
    }
  }
  ASSERT_TRUE(writer->Sync());
  EXPECT_TRUE(SameBytes(Bytes(ReadTestFile(directory / "file")), contents));
}

TEST(FileWriter, ResumeCutsAndContinues) {
  TestDirectory directory;
  const std::vector<std::byte> contents = RandomBytes(9'000'000, 3);
  std::vector<std::byte> longer = contents;
  longer.resize(10'000'000, std::byte{0x77});
  for (uint64_t length : {0u, 4095u, 8'388'608u, 9'000'000u}) {
    WriteTestFile(directory / "file", longer);
    auto writer = FileWriter::Resume(directory / "file", length);
    ASSERT_TRUE(writer) << writer.error().message;
    EXPECT_EQ((*writer)->size(), length);
    ASSERT_TRUE((*writer)->Append(std::span(contents).subspan(length)));
    ASSERT_TRUE((*writer)->Sync());
    EXPECT_TRUE(SameBytes(Bytes(ReadTestFile(directory / "file")), contents)) << length;
  }
  auto too_short = FileWriter::Resume(directory / "file", contents.size() + 1);
  ASSERT_FALSE(too_short);
  EXPECT_EQ(too_short.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(FileWriter::Resume(directory / "none", 0).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(FileWriter::Create(directory / "no/file").error().code, ErrorCode::kNotFound);
}

TEST(FileWriter, AFullDeviceIsATypedErrorThatStays) {
  auto writer = FileWriter::Create("/dev/full");
  if (!writer) GTEST_SKIP() << writer.error().message;
  std::vector<std::byte> large(3 << 20);
  EXPECT_TRUE((*writer)->Append(Bytes("buffered")));
  for (int round = 0; round < 2; ++round) {
    Status status = round == 0 ? (*writer)->Append(large) : (*writer)->Sync();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kResourceLimit);
    EXPECT_THAT(status.error().message, HasSubstr("/dev/full"));
    EXPECT_THAT(status.error().message, HasSubstr("No space left"));
    EXPECT_THAT(status.error().message, HasSubstr("8 bytes at offset 0"));
  }
  EXPECT_FALSE((*writer)->Append(Bytes("x")));
}

TEST(FileWriter, ADiskThatFillsMidwayAndResume) {
  TestDirectory directory;
  if (mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "may not mount a small tmpfs here";
  }
  {
    const std::vector<std::byte> contents = RandomBytes(6 << 20, 4);
    auto writer = FileWriter::Create(directory / "file").value();
    ASSERT_TRUE(writer->Append(std::span(contents).first(3 << 20)));
    ASSERT_TRUE(writer->Sync());
    Status status = writer->Append(std::span(contents).subspan(3 << 20));
    if (status) status = writer->Sync();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kResourceLimit);
    EXPECT_THAT(status.error().message, HasSubstr(directory / "file"));
    writer.reset();
    ASSERT_EQ(mount("tmpfs", directory.path().c_str(), "tmpfs", MS_REMOUNT, "size=16m"), 0);
    writer = FileWriter::Resume(directory / "file", 3 << 20).value();
    ASSERT_TRUE(writer->Append(std::span(contents).subspan(3 << 20)));
    ASSERT_TRUE(writer->Sync());
    EXPECT_TRUE(SameBytes(Bytes(ReadTestFile(directory / "file")), contents));
  }
  EXPECT_EQ(umount(directory.path().c_str()), 0);
}

TEST(FileWriter, TheFileSizeLimitIsAResourceLimit) {
  TestDirectory directory;
  auto* old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  auto writer = FileWriter::Create(directory / "file").value();
  Status status = writer->Append(std::vector<std::byte>(2 << 20));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kResourceLimit);
}

// Bytes of the file that the page cache holds.
size_t CachedBytes(const std::string& path, size_t size) {
  int fd = open(path.c_str(), O_RDONLY);
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> resident(size / kPageSize);
  EXPECT_EQ(mincore(map, size, resident.data()), 0);
  munmap(map, size);
  close(fd);
  return kPageSize * static_cast<size_t>(std::ranges::count_if(
                         resident, [](unsigned char flags) { return (flags & 1) != 0; }));
}

TEST(FileWriter, LeavesThePageCacheAlone) {
  TestDirectory directory;
  struct statfs file_system;
  ASSERT_EQ(statfs(directory.path().c_str(), &file_system), 0);
  if (file_system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "a tmpfs is page cache";
  constexpr size_t kSize = 96 << 20;
  auto writer = FileWriter::Create(directory / "file").value();
  std::vector<std::byte> part(3 << 20, std::byte{1});
  size_t most = 0;
  while (writer->size() < kSize) {
    ASSERT_TRUE(writer->Append(part));
    most = std::max(most, CachedBytes(directory / "file", writer->size() / kPageSize * kPageSize));
  }
  EXPECT_LE(most, 32u << 20);
  ASSERT_TRUE(writer->Sync());
  EXPECT_LE(CachedBytes(directory / "file", kSize), 1u << 20);
}

}  // namespace
}  // namespace slotstream::io
