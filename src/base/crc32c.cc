#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace slotstream {
namespace {

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(const std::byte* data, size_t size,
                                                       uint32_t crc) {
  uint64_t state = ~crc;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    state = _mm_crc32_u64(state, word);
  }
  for (; size > 0; ++data, --size) {
    state = _mm_crc32_u8(static_cast<uint32_t>(state), static_cast<uint8_t>(*data));
  }
  return ~static_cast<uint32_t>(state);
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
#endif
  return Crc32cPortable(data, crc);
}

}  // namespace slotstream
