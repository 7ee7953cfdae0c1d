// Loops of nothing but the instruction in question, with enough independent sums to hide its
// latency and all operands in registers.
#include "bench/roofs.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slotstream::bench {
namespace {

#if defined(__x86_64__)

constexpr int kSums = 12;  // two units of latency 4 or 5 need 8 to 10
// Each of a loop's inner repetitions; makes the loop's own cost vanish.
constexpr int kInner = 8;

#define SS_REPEAT _Pragma("GCC unroll 8") for (int inner = 0; inner < kInner; ++inner)
#define SS_EACH_SUM _Pragma("GCC unroll 12") for (int i = 0; i < kSums; ++i)

__attribute__((target("avx2,fma"))) uint64_t FmaAvx2(uint64_t loops) {
  __m256 sums[kSums];
  SS_EACH_SUM sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(1.0f);
  for (uint64_t n = 0; n < loops; ++n) {
    SS_REPEAT SS_EACH_SUM sums[i] = _mm256_fmadd_ps(sums[i], a, b);
  }
  __m256 total = sums[0];
  SS_EACH_SUM total = _mm256_add_ps(total, sums[i]);
  return static_cast<uint64_t>(total[0]);
}

__attribute__((target("avx512f"))) uint64_t FmaAvx512(uint64_t loops) {
  __m512 sums[kSums];
  SS_EACH_SUM sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(1.0f);
  for (uint64_t n = 0; n < loops; ++n) {
    SS_REPEAT SS_EACH_SUM sums[i] = _mm512_fmadd_ps(sums[i], a, b);
  }
  __m512 total = sums[0];
  SS_EACH_SUM total = _mm512_add_ps(total, sums[i]);
  return static_cast<uint64_t>(total[0]);
}

// Sums of 16 bits: what vpmaddubsw itself allows. A kernel must widen them now and then, so it
// stays below this. In assembler, or the compiler would take the product out of the loop.
__attribute__((target("avx2"))) uint64_t DotAvx2(uint64_t loops) {
  __m256i sums[kSums];
  SS_EACH_SUM sums[i] = _mm256_set1_epi16(static_cast<short>(i));
  const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5);
  for (uint64_t n = 0; n < loops; ++n) {
    SS_REPEAT SS_EACH_SUM {
      __m256i product;
      asm volatile("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                   : "+x"(sums[i]), "=&x"(product)
                   : "x"(a), "x"(b));
    }
  }
  __m256i total = sums[0];
  SS_EACH_SUM total = _mm256_add_epi16(total, sums[i]);
  return static_cast<uint64_t>(total[0]);
}

__attribute__((target("avx2,avxvnni"))) uint64_t DotAvxVnni(uint64_t loops) {
  __m256i sums[kSums];
  SS_EACH_SUM sums[i] = _mm256_set1_epi32(i);
  const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(5);
  for (uint64_t n = 0; n < loops; ++n) {
    SS_REPEAT SS_EACH_SUM sums[i] = _mm256_dpbusd_avx_epi32(sums[i], a, b);
  }
  __m256i total = sums[0];
  SS_EACH_SUM total = _mm256_add_epi32(total, sums[i]);
  return static_cast<uint64_t>(total[0]);
}

__attribute__((target("avx512f,avx512vnni"))) uint64_t DotAvx512Vnni(uint64_t loops) {
  __m512i sums[kSums];
  SS_EACH_SUM sums[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (uint64_t n = 0; n < loops; ++n) {
    SS_REPEAT SS_EACH_SUM sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
  }
  __m512i total = sums[0];
  SS_EACH_SUM total = _mm512_add_epi32(total, sums[i]);
  return static_cast<uint64_t>(total[0]);
}

// Four sums of 16 x 16; 16 rows of 64 bytes a tile (Intel's manual, volume 1, chapter 18).
__attribute__((target("amx-tile,amx-int8"))) uint64_t DotAmx(uint64_t loops) {
  struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes_per_row[16] = {};
    uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) {
    config.bytes_per_row[i] = 64;
    config.rows[i] = 16;
  }
  alignas(64) uint8_t zeros[1024] = {};
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_loadd(6, zeros, 64);
  _tile_loadd(7, zeros, 64);
  for (uint64_t n = 0; n < loops; ++n) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_stored(0, zeros, 64);
  _tile_release();
  return zeros[0];
}

constexpr double kRegisters = kSums * kInner;  // sums advanced by one loop

constexpr Peak kPeaks[] = {
    {"avx2", false, "vfmadd ymm", kRegisters * 8 * 2, FmaAvx2},
    {"avx512", false, "vfmadd zmm", kRegisters * 16 * 2, FmaAvx512},
    {"avx2", true, "vpmaddubsw ymm", kRegisters * 32 * 2, DotAvx2},
    {"avxvnni", true, "vpdpbusd ymm", kRegisters * 32 * 2, DotAvxVnni},
    {"avx512vnni", true, "vpdpbusd zmm", kRegisters * 64 * 2, DotAvx512Vnni},
    {"amx", true, "tdpbusd", 4 * 16 * 16 * 64 * 2, DotAmx},
};

#endif

}  // namespace

std::span<const Peak> Peaks() {
#if defined(__x86_64__)
  return kPeaks;
#else
  return {};
#endif
}

}  // namespace slotstream::bench
