#include "io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "io/free_space.h"
#include "io/test_directory.h"

namespace slotstream::io {
namespace {

using ::testing::HasSubstr;

TEST(File, ReadsAnyRangeDirectAndBuffered) {
  TestDirectory directory;
  const std::vector<std::byte> contents = RandomBytes((3 << 20) + 777, 1);
  WriteTestFile(directory / "file", contents);
  for (bool direct : {false, true}) {
    auto file = File::Open(directory / "file", direct);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->size(), contents.size());
    std::mt19937 rng(2);
    for (int round = 0; round < 300; ++round) {
      uint64_t offset = rng() % contents.size();
      uint64_t most = contents.size() - offset;
      uint64_t length = rng() % 4 == 0 ? most : rng() % std::min<uint64_t>(most, 20000);
      size_t shift = rng() % 3;
      if (rng() % 3 == 0) offset = offset / kDirectAlignment * kDirectAlignment, shift = 0;
      std::vector<std::byte> out(length + shift + 1, std::byte{0x5a});
      Status status = (*file)->ReadAt(offset, std::span(out).subspan(shift, length));
      ASSERT_TRUE(status) << status.error().message;
      EXPECT_EQ(std::memcmp(out.data() + shift, contents.data() + offset, length), 0);
      EXPECT_EQ(out.back(), std::byte{0x5a});
    }
  }
}

TEST(File, DirectReadsOfWholePages) {
  TestDirectory directory;
  const std::vector<std::byte> contents = RandomBytes(5 * kPageSize, 3);
  WriteTestFile(directory / "file", contents);
  auto file = File::Open(directory / "file", true);
  ASSERT_TRUE(file);
  if (!(*file)->direct()) GTEST_SKIP() << "no O_DIRECT in " << directory.path();
  EXPECT_EQ((*file)->alignment(), kDirectAlignment);
  auto out = AlignedBuffer::Allocate(2 * kPageSize, "a test");
  ASSERT_TRUE(out);
  ASSERT_TRUE((*file)->ReadAt(kPageSize, out->span()));
  EXPECT_EQ(std::memcmp(out->data(), contents.data() + kPageSize, out->size()), 0);
  // Proof that the descriptor is direct: the system refuses an unaligned offset.
  EXPECT_EQ(pread((*file)->fd(), out->data(), kPageSize, 1), -1);
}

TEST(File, EndOfFileIsTruncation) {
  TestDirectory directory;
  WriteTestFile(directory / "file", RandomBytes(5000, 4));
  for (bool direct : {false, true}) {
    auto file = File::Open(directory / "file", direct);
    ASSERT_TRUE(file);
    std::vector<std::byte> out(1000);
    EXPECT_TRUE((*file)->ReadAt(4000, out));
    for (uint64_t offset : {4001ull, 5000ull, 9999ull, ~0ull, 1ull << 63, (1ull << 63) - 1}) {
      Status status = (*file)->ReadAt(offset, out);
      ASSERT_FALSE(status) << offset;
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(status.error().message, HasSubstr((*file)->path()));
      EXPECT_THAT(status.error().message, HasSubstr("needs 1000 bytes at offset " +
                                                    std::to_string(offset) + ", file has 5000"));
    }
    auto page = AlignedBuffer::Allocate(kPageSize, "a test");
    EXPECT_FALSE((*file)->ReadAt(kPageSize, page->span()));
  }
}

TEST(File, TypedErrorsOfOpen) {
  TestDirectory directory;
  auto missing = File::Open(directory / "missing", true);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(directory / "missing"));
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));

  auto folder = File::Open(directory.path(), false);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(folder.error().message, HasSubstr("a directory"));

  ASSERT_EQ(mkfifo((directory / "pipe").c_str(), 0600), 0);
  auto pipe = File::Open(directory / "pipe", false);
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().code, ErrorCode::kInvalidArgument);

  WriteTestFile(directory / "file", Bytes("x"));
  auto below_file = File::Open(directory / "file/x", false);
  ASSERT_FALSE(below_file);
  EXPECT_EQ(below_file.error().code, ErrorCode::kNotFound);

  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  auto too_many = File::Open(directory / "file", false);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, ErrorCode::kResourceLimit);
  EXPECT_THAT(too_many.error().message, HasSubstr("ulimit -n"));
}

TEST(File, FallsBackToBufferedReads) {
  // procfs refuses O_DIRECT; tmpfs refuses it or, in newer kernels, takes it without a use.
  auto proc = File::Open("/proc/self/status", true);
  ASSERT_TRUE(proc) << proc.error().message;
  EXPECT_FALSE((*proc)->direct());
  EXPECT_EQ((*proc)->alignment(), 1u);

  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  TestDirectory directory("/dev/shm");
  WriteTestFile(directory / "file", Bytes("some words"));
  auto file = File::Open(directory / "file", true);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE((*file)->direct());
  std::string word(5, '?');
  ASSERT_TRUE((*file)->ReadAt(5, std::as_writable_bytes(std::span(word))));
  EXPECT_EQ(word, "words");
}

TEST(ReadWholeFile, ContentsAndErrors) {
  TestDirectory directory;
  for (size_t size : {0u, 1u, 4095u, 4096u, 100000u, (1u << 20) + 1}) {
    std::vector<std::byte> contents = RandomBytes(size, 5);
    WriteTestFile(directory / "config", contents);
    auto text = ReadWholeFile(directory / "config", size);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_TRUE(SameBytes(Bytes(*text), contents));
    if (size == 0) continue;
    auto too_large = ReadWholeFile(directory / "config", size - 1);
    ASSERT_FALSE(too_large);
    EXPECT_EQ(too_large.error().code, ErrorCode::kResourceLimit);
    EXPECT_THAT(too_large.error().message, HasSubstr(directory / "config"));
  }
  EXPECT_EQ(ReadWholeFile(directory / "none", 10).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadWholeFile(directory.path(), 10).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(ReadWholeFile("/proc/self/status", 1 << 20).value().starts_with("Name:"));
}

TEST(FreeSpace, OfExistingAndFuturePaths) {
  TestDirectory directory;
  for (const std::string& path :
       {directory.path(), directory / "no/such/file", std::string("no_such_file"), std::string(),
        std::string("/no_such_directory/file")}) {
    auto bytes = FreeBytes(path);
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_GT(*bytes, 0u) << path;
  }
  EXPECT_EQ(FreeBytes("/proc/none").value(), 0u);  // asked of procfs, not of the root
  auto too_long = FreeBytes(directory / std::string(300, 'x'));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace slotstream::io
