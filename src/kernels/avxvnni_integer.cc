// The integer products for AVX-VNNI: byte dot products in 256 bits, without AVX-512.
#if defined(__x86_64__)

#define SS_INTEGER_TARGET "avx2,fma,avxvnni"
#include "kernels/avx2_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

struct AvxVnniLanes : Avx2Vectors {
  static constexpr size_t kHeldSteps = 4;
  static constexpr size_t kRowsAtOnce = 4;
  template <size_t kTerms>
  static constexpr size_t kWide = kTerms == 1 ? 4 : 2;

  using Partial = __m256i;
  static constexpr size_t kPartialSteps = SIZE_MAX;

  static SS_INLINE Partial Begin() { return _mm256_setzero_si256(); }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    return _mm256_dpbusd_avx_epi32(sum, nibbles, inputs);
  }
  template <int kShift>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    return _mm256_add_epi32(ints, _mm256_slli_epi32(sum, kShift));
  }
};

constinit const PanelKernels kAvxVnniInt8 = MakeIntegerPanels<AvxVnniLanes, 1>("avxvnni");
constinit const PanelKernels kAvxVnniInt15 = MakeIntegerPanels<AvxVnniLanes, 2>("avxvnni");

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
