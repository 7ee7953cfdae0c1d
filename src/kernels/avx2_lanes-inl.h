// Vectors of eight lanes for the integer products, and the encoding of activations, which all of
// x86-64 shares.
#pragma once

#include <immintrin.h>

#include "kernels/integer_panels-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

struct Avx2Vectors {
  using Ints = __m256i;
  using Floats = __m256;
  using Bytes = __m256i;

  static constexpr size_t kLanes = 8;

  static SS_INLINE Ints SetInt(int32_t value) { return _mm256_set1_epi32(value); }
  static SS_INLINE Ints LoadInts(const int32_t* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }
  static SS_INLINE void StoreInts(Ints v, int32_t* to) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), v);
  }
  static SS_INLINE Ints Add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static SS_INLINE Floats SetFloat(float value) { return _mm256_set1_ps(value); }
  static SS_INLINE Floats LoadFloats(const float* from) { return _mm256_load_ps(from); }
  static SS_INLINE void StoreFloats(Floats v, float* to) { _mm256_store_ps(to, v); }
  static SS_INLINE Floats ToFloats(Ints v) { return _mm256_cvtepi32_ps(v); }
  static SS_INLINE Floats Mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static SS_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static SS_INLINE Floats LoadBf16(const std::byte* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }

  static SS_INLINE Bytes LoadWords(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static SS_INLINE Bytes Low(Bytes words) { return _mm256_and_si256(words, _mm256_set1_epi8(15)); }
  static SS_INLINE Bytes High(Bytes words) {
    return _mm256_and_si256(_mm256_srli_epi32(words, 4), _mm256_set1_epi8(15));
  }
  // Four codes in every lane.
  static SS_INLINE Bytes Inputs(const std::byte* four) {
    int32_t bits;
    std::memcpy(&bits, four, sizeof bits);
    return _mm256_set1_epi32(bits);
  }

  // The largest |x| of n values, a multiple of eight, as bits: ordered like the floats, with NaNs
  // above infinity.
  static SS_INLINE uint32_t MagnitudeBits(const float* x, size_t n) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 8) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
      most = _mm256_max_epi32(most, _mm256_and_si256(bits, magnitude));
    }
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(half));
  }

  static SS_INLINE int32_t Total(Ints v) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    return _mm_cvtsi128_si32(half);
  }

  // Byte 0 of eight integers, evens before odds.
  static SS_INLINE void StoreCodes(__m256i v, std::byte* to) {
    const __m128i order =
        _mm_setr_epi8(0, 8, 4, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i first = _mm_shuffle_epi8(_mm256_castsi256_si128(v), order);
    const __m128i second = _mm_shuffle_epi8(_mm256_extracti128_si256(v, 1), order);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi16(first, second));
  }

  // Codes of n values as prepared_rows.h lays them out; the sum of v.
  template <size_t kTerms>
  static SS_INLINE int32_t Encode(const float* x, size_t n, float to_code, std::byte* codes) {
    const __m256 factor = _mm256_set1_ps(to_code);
    __m256i sum = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 8) {
      const __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
      sum = _mm256_add_epi32(sum, v);
      if constexpr (kTerms == 2) {
        StoreCodes(_mm256_srai_epi32(_mm256_add_epi32(v, _mm256_set1_epi32(128)), 8), codes + i);
      }
      StoreCodes(v, codes + (kTerms - 1) * n + i);
    }
    return Total(sum);
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
