// From 4-bit values to floats.
#pragma once

#include "base/bf16.h"
#include "kernels/simd_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

// kLanes u32 words from any address.
HWY_INLINE VU LoadWords(const std::byte* from) {
  using DB = hn::Repartition<uint8_t, DU>;
  return hn::BitCast(DU(), hn::LoadU(DB(), reinterpret_cast<const uint8_t*>(from)));
}

// Words of a panel, made ready for CentredNibble.
HWY_INLINE VU LoadPanelWords(const std::byte* from) {
  const VU words = LoadWords(from);
#if HWY_TARGET == HWY_AVX2
  // Flipping a value's top bit makes it the two's complement of value - 8.
  return hn::Xor(words, hn::Set(DU(), 0x88888888u));
#else
  return words;
#endif
}

// Value kIndex (0 to 7) of each word, less 8.
template <int kIndex>
HWY_INLINE VF CentredNibble(VU words) {
#if HWY_TARGET == HWY_AVX3
  // A table of the 16 floats; the permute looks at the low four bits of each index only.
  const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  return VF{_mm512_permutexvar_ps(hn::ShiftRight<4 * kIndex>(words).raw, table)};
#elif HWY_TARGET == HWY_NEON
  // Converting as a fixed-point number divides by the power of two that a shift would remove.
  const VU masked = hn::And(words, hn::Set(DU(), 15u << (4 * kIndex)));
  const VF centre = hn::Set(DF(), kNibbleCentre);
  if constexpr (kIndex == 0) {
    return hn::Sub(VF(vcvtq_f32_u32(masked.raw)), centre);
  } else {
    return hn::Sub(VF(vcvtq_n_f32_u32(masked.raw, 4 * kIndex)), centre);
  }
#else
  const auto at_top = hn::BitCast(hn::RebindToSigned<DF>(), hn::ShiftLeft<28 - 4 * kIndex>(words));
  return hn::ConvertTo(DF(), hn::ShiftRight<28>(at_top));
#endif
}

// out[i] = fma(scale, q_i, bias). A row's words lie one after the other, unlike a panel's.
inline void DequantizeRow(const std::byte* row, size_t width, size_t group, float* out) {
  using D8 = hn::CappedTag<float, 8>;  // at most one word a vector
  using D8U = hn::RebindToUnsigned<D8>;
  constexpr size_t kStep = HWY_MIN(kLanes, 8);
  HWY_ALIGN static constexpr uint32_t kShifts[8] = {0, 4, 8, 12, 16, 20, 24, 28};
  const std::byte* scales = row + width / 2;
  const std::byte* biases = scales + width / group * 2;
  for (size_t g = 0; g < width / group; ++g) {
    uint16_t bits[2];
    std::memcpy(&bits[0], scales + g * 2, 2);
    std::memcpy(&bits[1], biases + g * 2, 2);
    const auto scale = hn::Set(D8(), Bf16ToFloat(bits[0]));
    const auto bias = hn::Set(D8(), Bf16ToFloat(bits[1]));
    for (size_t i = g * group; i < (g + 1) * group; i += 8) {
      uint32_t word;
      std::memcpy(&word, row + i / 2, 4);
      HWY_UNROLL(2)
      for (size_t j = 0; j < 8; j += kStep) {
        const auto shifted = hn::Set(D8U(), word) >> hn::LoadU(D8U(), kShifts + j);
        const auto nibbles = hn::And(shifted, hn::Set(D8U(), 15u));
        const auto q = hn::ConvertTo(D8(), hn::BitCast(hn::RebindToSigned<D8>(), nibbles));
        hn::StoreU(hn::MulAdd(scale, q, bias), D8(), out + i + j);
      }
    }
  }
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
