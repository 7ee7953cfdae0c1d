#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bf16.h"
#include "base/crc32c.h"
#include "base/thread_pool.h"

namespace slotstream {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32c, KnownVectors) {
  // RFC 3720 B.4.
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xe3069283u);
  std::vector<std::byte> zeros(32), ones(32, std::byte{0xff});
  EXPECT_EQ(Crc32c(zeros), 0x8a9136aau);
  EXPECT_EQ(Crc32c(ones), 0x62a8ab43u);
}

TEST(Crc32c, InstructionEqualsTableAndContinues) {
  std::mt19937 rng(1);
  std::vector<std::byte> data(50'000);  // four times what is summed in stripes at once
  for (std::byte& b : data) b = static_cast<std::byte>(rng());
  for (size_t size = 0; size < data.size(); size += size < 1000 ? 37 : 1237) {
    std::span<const std::byte> part(data.data(), size);
    EXPECT_EQ(Crc32c(part), Crc32cPortable(part));
    size_t cut = size / 3;
    EXPECT_EQ(Crc32c(part.subspan(cut), Crc32c(part.first(cut))), Crc32c(part));
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = Bf16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToBf16(value), bits);
  }
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, down to even
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, up to even
}

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (size_t count : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> hits(count);
      pool.ParallelFor(count, [&](size_t i) { ++hits[i]; });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(3);
  std::atomic<size_t> sum{0};
  for (int round = 0; round < 20000; ++round) {
    pool.ParallelFor(4, [&](size_t i) { sum += i; });
  }
  EXPECT_EQ(sum.load(), 20000u * 6);
}

TEST(AlignedBuffer, IsZeroedAlignedAndMovable) {
  auto buffer = AlignedBuffer::Allocate(10000, "test");
  ASSERT_TRUE(buffer);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kPageSize, 0u);
  for (std::byte b : buffer->span()) ASSERT_EQ(b, std::byte{0});
  const std::byte* address = buffer->data();
  AlignedBuffer moved = std::move(*buffer);
  EXPECT_EQ(moved.data(), address);
  EXPECT_EQ(buffer->size(), 0u);
}

TEST(AlignedBuffer, RefusalNamesTheBuffer) {
  auto buffer = AlignedBuffer::Allocate(size_t{1} << 60, "slot pool");
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceLimit);
  EXPECT_NE(buffer.error().message.find("slot pool"), std::string::npos);
}

}  // namespace
}  // namespace slotstream
