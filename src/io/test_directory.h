// Files for tests: a directory that cleans up after itself, random contents, and what became of
// them.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace slotstream::io {

class TestDirectory {
 public:
  explicit TestDirectory(std::string parent = ::testing::TempDir()) {
    path_ = parent + "/slotstream_io_XXXXXX";
    EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_;
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::vector<std::byte> RandomBytes(size_t size, uint32_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<uint64_t> words(size / 8 + 1);
  for (uint64_t& word : words) word = rng();
  std::span<const std::byte> bytes = std::as_bytes(std::span(words)).first(size);
  return {bytes.begin(), bytes.end()};
}

inline bool SameBytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

inline void WriteTestFile(const std::string& path, std::span<const std::byte> bytes) {
  FILE* file = fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr) << path;
  if (!bytes.empty()) {
    EXPECT_EQ(fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  }
  EXPECT_EQ(fclose(file), 0);
}

inline std::string ReadTestFile(const std::string& path) {
  std::string text;
  FILE* file = fopen(path.c_str(), "rb");
  if (file == nullptr) return "(no file)";
  std::vector<char> part(1 << 20);
  while (size_t count = fread(part.data(), 1, part.size(), file)) text.append(part.data(), count);
  fclose(file);
  return text;
}

}  // namespace slotstream::io
