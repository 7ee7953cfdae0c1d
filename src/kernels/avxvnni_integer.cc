// The integer products for AVX-VNNI, which multiplies and adds in one instruction, in 256 bits and
// without AVX-512.
#if defined(__x86_64__)

#define SS_INTEGER_TARGET "avx2,fma,avxvnni"
#include "kernels/avx2_panels-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {
namespace {

struct Int8Lanes : Avx2Bytes {
  static constexpr size_t kSteps = SIZE_MAX;
  static SS_INLINE Ints MultiplyAdd(Ints sum, Ints nibbles, Ints inputs) {
    return _mm256_dpbusd_avx_epi32(sum, nibbles, inputs);
  }
  static SS_INLINE Ints Widen(Ints sum) { return sum; }

  // With more rows than one IntegerManyRows is faster: 1.05 to 1.1 times on a Xeon.
  static constexpr size_t kManyRows = 2;
  static constexpr size_t kHeldSteps = 4;
  static constexpr size_t kRowsAtOnce = 4;
  static constexpr size_t kPartialSteps = kSteps;
  using Partial = Ints;
  static SS_INLINE Partial Begin() { return SetInt(0); }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    return MultiplyAdd(sum, nibbles, inputs);
  }
  template <int>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    return Add(ints, sum);
  }
};

struct Int15Lanes : Avx2Pairs {
  static SS_INLINE Ints MultiplyAdd(Ints sum, Ints nibbles, Ints inputs) {
    return _mm256_dpwssd_avx_epi32(sum, nibbles, inputs);
  }
};

}  // namespace

constinit const PanelKernels kAvxVnniInt8 = MakeAvx2Panels<Int8Lanes>("avxvnni");
constinit const PanelKernels kAvxVnniInt15 = MakeAvx2Panels<Int15Lanes>("avxvnni");

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
