// The integer products for AVX2, which multiplies bytes into sums of 16 bits and 16 bits into sums
// of 32.
#if defined(__x86_64__)

#define SS_INTEGER_TARGET "avx2,fma"
#include "kernels/avx2_panels-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {
namespace {

// In assembler: GCC would copy registers, and add in trees whose leaves do not fit into them.
#define SS_MULTIPLY_ADD(multiply, add)             \
  Ints product;                                    \
  asm(multiply " %3, %2, %1\n\t" add " %1, %0, %0" \
      : "+x"(sum), "=&x"(product)                  \
      : "x"(nibbles), "x"(inputs));                \
  return sum

struct Int8Lanes : Avx2Bytes {
  // Sums of 16 bits: four steps add eight pairs of products of at most 15 * 127.
  static constexpr size_t kSteps = 4;
  static SS_INLINE Ints MultiplyAdd(Ints sum, Ints nibbles, Ints inputs) {
    SS_MULTIPLY_ADD("vpmaddubsw", "vpaddw");
  }
  static SS_INLINE Ints Widen(Ints sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }

  // With many rows IntegerManyRows is faster: 1.15 times on Zen 3.
  static constexpr size_t kManyRows = 20;
  static constexpr size_t kHeldSteps = 4;
  static constexpr size_t kRowsAtOnce = 4;
  static constexpr size_t kPartialSteps = kSteps;
  using Partial = Ints;
  static SS_INLINE Partial Begin() { return SetInt(0); }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(nibbles, inputs));
    asm("" : "+x"(sum));  // no trees here either
    return sum;
  }
  template <int kShift>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    return Add(ints, Widen(sum));
  }
};

struct Int15Lanes : Avx2Pairs {
  static SS_INLINE Ints MultiplyAdd(Ints sum, Ints nibbles, Ints inputs) {
    SS_MULTIPLY_ADD("vpmaddwd", "vpaddd");
  }
};

}  // namespace

constinit const PanelKernels kAvx2Int8 = MakeAvx2Panels<Int8Lanes>("avx2");
constinit const PanelKernels kAvx2Int15 = MakeAvx2Panels<Int15Lanes>("avx2");

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
