// The integer products for AVX2, which multiplies bytes and adds the products in pairs of 16 bits.
#if defined(__x86_64__)

#define SS_INTEGER_TARGET "avx2,fma"
#include "kernels/avx2_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

struct Avx2Lanes : Avx2Vectors {
  static constexpr size_t kHeldSteps = 4;
  static constexpr size_t kRowsAtOnce = 4;
  // With one term a whole panel streams by; its 8 partial sums, with the words and inputs of a
  // step, nearly fit into 16 registers. Two terms have twice as many sums.
  template <size_t kTerms>
  static constexpr size_t kWide = kTerms == 1 ? 8 : 4;

  // Sums of 16 bits: four products of at most 15 * 128 a step, so four steps stay in range.
  using Partial = __m256i;
  static constexpr size_t kPartialSteps = 4;

  static SS_INLINE Partial Begin() { return _mm256_setzero_si256(); }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(nibbles, inputs));
    // GCC would add in trees, whose leaves do not fit into the registers.
    asm("" : "+x"(sum));
    return sum;
  }
  template <int kShift>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    return _mm256_add_epi32(ints, _mm256_madd_epi16(sum, _mm256_set1_epi16(1 << kShift)));
  }
};

constinit const PanelKernels kAvx2Int8 = MakeIntegerPanels<Avx2Lanes, 1>("avx2");
constinit const PanelKernels kAvx2Int15 = MakeIntegerPanels<Avx2Lanes, 2>("avx2");

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
