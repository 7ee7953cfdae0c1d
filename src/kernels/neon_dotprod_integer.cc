// The integer products for arm64 with byte dot products (FEAT_DotProd).
#if defined(__aarch64__)

#if defined(__clang__)
#define SS_INTEGER_TARGET "dotprod"
#else
#define SS_INTEGER_TARGET "arch=armv8.2-a+dotprod"
#endif
#include "kernels/neon_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

struct NeonDotprodLanes : NeonVectors {
  using Partial = int32x4_t;
  static constexpr size_t kPartialSteps = SIZE_MAX;

  static SS_INLINE Partial Begin() { return vdupq_n_s32(0); }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    return vdotq_s32(sum, nibbles, inputs);
  }
  template <int kShift>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    return vaddq_s32(ints, vshlq_n_s32(sum, kShift));
  }
};

constinit const PanelKernels kNeonDotprodInt8 = MakeIntegerPanels<NeonDotprodLanes, 1>("dotprod");
constinit const PanelKernels kNeonDotprodInt15 = MakeIntegerPanels<NeonDotprodLanes, 2>("dotprod");

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
