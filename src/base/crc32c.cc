#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace slotstream {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // Castagnoli's, bits reversed

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) ? kPolynomial : 0u);
    table[i] = crc;
  }
  return table;
}();

// The instruction gives a result every cycle but only after three: three stripes of the data are
// summed side by side, and the next three fetched meanwhile. A checksum is linear, so the stripes'
// are put together by moving one past the zeros that stand for the next (as Mark Adler's crc32c.c
// does). On a core of Zen 3, one stream against three: 6 and 10 GB/s from memory, 8 and 19 from
// the cache.
constexpr size_t kStripe = 4096;

// A 32x32 matrix over GF(2), by columns.
using Matrix = std::array<uint32_t, 32>;

constexpr uint32_t Apply(const Matrix& matrix, uint32_t vector) {
  uint32_t sum = 0;
  for (size_t i = 0; vector != 0; vector >>= 1, ++i) sum ^= (vector & 1u) != 0 ? matrix[i] : 0u;
  return sum;
}

// What kStripe zero bytes do to a checksum, by its four bytes.
constexpr std::array<std::array<uint32_t, 256>, 4> kPastStripe = [] {
  Matrix matrix{};  // of one zero bit
  matrix[0] = kPolynomial;
  for (size_t i = 1; i < 32; ++i) matrix[i] = 1u << (i - 1);
  for (size_t bits = 1; bits < kStripe * 8; bits *= 2) {
    Matrix square{};
    for (size_t i = 0; i < 32; ++i) square[i] = Apply(matrix, matrix[i]);
    matrix = square;
  }
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (uint32_t byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      tables[byte][value] = Apply(matrix, value << (8 * byte));
    }
  }
  return tables;
}();

[[maybe_unused]] uint32_t PastStripe(uint32_t crc) {
  return kPastStripe[0][crc & 0xffu] ^ kPastStripe[1][crc >> 8 & 0xffu] ^
         kPastStripe[2][crc >> 16 & 0xffu] ^ kPastStripe[3][crc >> 24];
}

// The same loop for each processor's instructions; WORD and BYTE take a state and data.
#define SS_CRC32C_LOOP(State, WORD, BYTE)                                                          \
  const auto word = [](const std::byte* from) {                                                    \
    uint64_t value;                                                                                \
    std::memcpy(&value, from, 8);                                                                  \
    return value;                                                                                  \
  };                                                                                               \
  State state = ~crc;                                                                              \
  for (; size >= 3 * kStripe; data += 3 * kStripe, size -= 3 * kStripe) {                          \
    State second = 0, third = 0;                                                                   \
    for (size_t line = 0; line < kStripe; line += 64) {                                            \
      for (size_t stripe = 0; stripe < 3; ++stripe) {                                              \
        __builtin_prefetch(data + (3 + stripe) * kStripe + line);                                  \
      }                                                                                            \
      for (size_t i = line; i < line + 64; i += 8) {                                               \
        state = WORD(state, word(data + i));                                                       \
        second = WORD(second, word(data + kStripe + i));                                           \
        third = WORD(third, word(data + 2 * kStripe + i));                                         \
      }                                                                                            \
    }                                                                                              \
    state = PastStripe(PastStripe(static_cast<uint32_t>(state)) ^ static_cast<uint32_t>(second)) ^ \
            static_cast<uint32_t>(third);                                                          \
  }                                                                                                \
  for (; size >= 8; data += 8, size -= 8) state = WORD(state, word(data));                         \
  uint32_t last = static_cast<uint32_t>(state);                                                    \
  for (; size > 0; ++data, --size) last = BYTE(last, static_cast<uint8_t>(*data));                 \
  return ~last

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(const std::byte* data, size_t size,
                                                       uint32_t crc) {
  SS_CRC32C_LOOP(uint64_t, _mm_crc32_u64, _mm_crc32_u8);
}
#elif defined(__aarch64__)
__attribute__((target("+crc"))) uint32_t Crc32cArm(const std::byte* data, size_t size,
                                                   uint32_t crc) {
  SS_CRC32C_LOOP(uint32_t, __crc32cd, __crc32cb);
}
#endif

}  // namespace

uint32_t Crc32cPortable(std::span<const std::byte> data, uint32_t crc) {
  crc = ~crc;
  for (std::byte b : data) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(b)) & 0xffu];
  return ~crc;
}

uint32_t Crc32c(std::span<const std::byte> data, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  if (has_sse42) return Crc32cSse42(data.data(), data.size(), crc);
#elif defined(__aarch64__)
  static const bool has_crc = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
  if (has_crc) return Crc32cArm(data.data(), data.size(), crc);
#endif
  return Crc32cPortable(data, crc);
}

}  // namespace slotstream
