// Vectors of sixteen lanes for the integer products, with byte dot products in 512 bits.
#pragma once

// GCC 12 takes the undefined vectors inside its own AVX-512 functions for mistakes.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "kernels/avx2_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

struct Avx512VnniLanes {
  using Ints = __m512i;
  using Floats = __m512;
  using Bytes = __m512i;
  using Partial = __m512i;

  static constexpr size_t kLanes = 16;
  static constexpr size_t kHeldSteps = 8;
  static constexpr size_t kRowsAtOnce = 8;
  template <size_t kTerms>
  static constexpr size_t kWide = 4;
  static constexpr size_t kPartialSteps = SIZE_MAX;

  static SS_INLINE Ints SetInt(int32_t value) { return _mm512_set1_epi32(value); }
  static SS_INLINE Ints LoadInts(const int32_t* from) { return _mm512_load_si512(from); }
  static SS_INLINE void StoreInts(Ints v, int32_t* to) { _mm512_store_si512(to, v); }
  static SS_INLINE Ints Add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static SS_INLINE Floats SetFloat(float value) { return _mm512_set1_ps(value); }
  static SS_INLINE Floats LoadFloats(const float* from) { return _mm512_load_ps(from); }
  static SS_INLINE void StoreFloats(Floats v, float* to) { _mm512_store_ps(to, v); }
  static SS_INLINE Floats ToFloats(Ints v) { return _mm512_cvtepi32_ps(v); }
  static SS_INLINE Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static SS_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static SS_INLINE Floats LoadBf16(const std::byte* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }

  static SS_INLINE Bytes LoadWords(const std::byte* from) { return _mm512_loadu_si512(from); }
  static SS_INLINE Bytes Low(Bytes words) { return _mm512_and_si512(words, _mm512_set1_epi8(15)); }
  static SS_INLINE Bytes High(Bytes words) {
    return _mm512_and_si512(_mm512_srli_epi32(words, 4), _mm512_set1_epi8(15));
  }
  static SS_INLINE Bytes Inputs(const std::byte* four) {
    int32_t bits;
    std::memcpy(&bits, four, sizeof bits);
    return _mm512_set1_epi32(bits);
  }

  static SS_INLINE Partial Begin() { return _mm512_setzero_si512(); }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    return _mm512_dpbusd_epi32(sum, nibbles, inputs);
  }
  template <int kShift>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    return _mm512_add_epi32(ints, _mm512_slli_epi32(sum, kShift));
  }

  static SS_INLINE uint32_t MagnitudeBits(const float* x, size_t n) {
    return Avx2Vectors::MagnitudeBits(x, n);
  }
  template <size_t kTerms>
  static SS_INLINE int32_t Encode(const float* x, size_t n, float to_code, std::byte* codes) {
    return Avx2Vectors::Encode<kTerms>(x, n, to_code, codes);
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
