// Vectors of four lanes for the integer products of arm64.
#pragma once

#include <arm_neon.h>

#include "kernels/integer_panels-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

struct NeonVectors {
  using Ints = int32x4_t;
  using Floats = float32x4_t;
  using Bytes = int8x16_t;

  static constexpr size_t kLanes = 4;
  static constexpr size_t kHeldSteps = 8;
  static constexpr size_t kRowsAtOnce = 4;
  template <size_t kTerms>
  static constexpr size_t kWide = kTerms == 1 ? 8 : 4;

  static SS_INLINE Ints SetInt(int32_t value) { return vdupq_n_s32(value); }
  static SS_INLINE Ints LoadInts(const int32_t* from) { return vld1q_s32(from); }
  static SS_INLINE void StoreInts(Ints v, int32_t* to) { vst1q_s32(to, v); }
  static SS_INLINE Ints Add(Ints a, Ints b) { return vaddq_s32(a, b); }
  static SS_INLINE Floats SetFloat(float value) { return vdupq_n_f32(value); }
  static SS_INLINE Floats LoadFloats(const float* from) { return vld1q_f32(from); }
  static SS_INLINE void StoreFloats(Floats v, float* to) { vst1q_f32(to, v); }
  static SS_INLINE Floats ToFloats(Ints v) { return vcvtq_f32_s32(v); }
  static SS_INLINE Floats Mul(Floats a, Floats b) { return vmulq_f32(a, b); }
  static SS_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  static SS_INLINE Floats LoadBf16(const std::byte* from) {
    const uint8x8_t bits = vld1_u8(reinterpret_cast<const uint8_t*>(from));
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(bits), 16));
  }

  static SS_INLINE Bytes LoadWords(const std::byte* from) {
    return vld1q_s8(reinterpret_cast<const int8_t*>(from));
  }
  static SS_INLINE Bytes Low(Bytes words) { return vandq_s8(words, vdupq_n_s8(15)); }
  static SS_INLINE Bytes High(Bytes words) {
    return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(words), 4));
  }
  static SS_INLINE Bytes Inputs(const std::byte* four) {
    int32_t bits;
    std::memcpy(&bits, four, sizeof bits);
    return vreinterpretq_s8_s32(vdupq_n_s32(bits));
  }

  static SS_INLINE uint32_t MagnitudeBits(const float* x, size_t n) {
    uint32x4_t most = vdupq_n_u32(0);
    for (size_t i = 0; i < n; i += 4) {
      const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
      most = vmaxq_u32(most, vandq_u32(bits, vdupq_n_u32(0x7fffffffu)));
    }
    return vmaxvq_u32(most);
  }

  // Byte 0 of eight integers, evens before odds.
  static SS_INLINE void StoreCodes(int32x4_t first, int32x4_t second, std::byte* to) {
    const int16x8_t halves = vcombine_s16(vmovn_s32(first), vmovn_s32(second));
    const int8x8_t bytes = vmovn_s16(halves);  // 0 1 2 3 4 5 6 7
    const int8x8_t order = vuzp1_s8(bytes, bytes);
    const int8x8_t odds = vuzp2_s8(bytes, bytes);
    vst1_s8(reinterpret_cast<int8_t*>(to),
            vreinterpret_s8_s32(vzip1_s32(vreinterpret_s32_s8(order), vreinterpret_s32_s8(odds))));
  }

  template <size_t kTerms>
  static SS_INLINE int32_t Encode(const float* x, size_t n, float to_code, std::byte* codes) {
    int32x4_t sum = vdupq_n_s32(0);
    for (size_t i = 0; i < n; i += 8) {
      const int32x4_t first = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), to_code));
      const int32x4_t second = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4), to_code));
      sum = vaddq_s32(sum, vaddq_s32(first, second));
      if constexpr (kTerms == 2) {
        const int32x4_t half = vdupq_n_s32(128);
        StoreCodes(vshrq_n_s32(vaddq_s32(first, half), 8), vshrq_n_s32(vaddq_s32(second, half), 8),
                   codes + i);
      }
      StoreCodes(first, second, codes + (kTerms - 1) * n + i);
    }
    return vaddvq_s32(sum);
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
