// The integer products for every arm64 processor: byte products of 16 bits, added in pairs.
#if defined(__aarch64__)

#define SS_INTEGER_TARGET "arch=armv8-a"
#include "kernels/neon_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

struct NeonLanes : NeonVectors {
  // Sums of the low and of the high eight products: 16 bits hold 16 of 15 * 128, one a vector.
  struct Partial {
    int16x8_t low, high;
  };
  static constexpr size_t kPartialSteps = 8;

  static SS_INLINE Partial Begin() { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    return {vmlal_s8(sum.low, vget_low_s8(nibbles), vget_low_s8(inputs)),
            vmlal_high_s8(sum.high, nibbles, inputs)};
  }
  template <int kShift>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    const int32x4_t dots = vpaddq_s32(vpaddlq_s16(sum.low), vpaddlq_s16(sum.high));
    return vaddq_s32(ints, vshlq_n_s32(dots, kShift));
  }
};

constinit const PanelKernels kNeonInt8 = MakeIntegerPanels<NeonLanes, 1>("neon");
constinit const PanelKernels kNeonInt15 = MakeIntegerPanels<NeonLanes, 2>("neon");

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
