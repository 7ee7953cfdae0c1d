// scalar_math.h in vectors: the same operations in the same order.
#pragma once

#include "kernels/scalar_math.h"
#include "kernels/simd_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

HWY_INLINE VF Exp(VF x) {
  using namespace exp_constants;
  const VF magic = SetF(kRoundMagic);
  const VF one = SetF(1.0f);
  const VF shifted = hn::MulAdd(x, SetF(kLog2E), magic);
  const VF n = hn::Sub(shifted, magic);
  const VF r = hn::MulAdd(n, SetF(-kLn2Low), hn::MulAdd(n, SetF(-kLn2High), x));
  VF p = SetF(kC6);
  p = hn::MulAdd(p, r, SetF(kC5));
  p = hn::MulAdd(p, r, SetF(kC4));
  p = hn::MulAdd(p, r, SetF(kC3));
  p = hn::MulAdd(p, r, SetF(kC2));
  p = hn::MulAdd(p, r, one);
  p = hn::MulAdd(p, r, one);
  const VU power = hn::ShiftLeft<23>(hn::BitCast(DU(), shifted));
  p = hn::BitCast(DF(), hn::Add(hn::BitCast(DU(), p), power));
  p = hn::IfThenZeroElse(hn::Lt(x, SetF(kLowest)), p);
  return hn::IfThenElse(hn::Le(x, SetF(kHighest)), p, hn::Add(x, SetF(kInfinity)));
}

HWY_INLINE VF Log1p(VF e) {
  using namespace log_constants;
  const VF one = SetF(1.0f);
  const VF u = hn::Add(one, e);
  const VF lost =
      hn::IfThenElse(hn::Lt(e, one), hn::Sub(e, hn::Sub(u, one)), hn::Sub(one, hn::Sub(u, e)));
  const VU exponent = hn::And(hn::Sub(hn::BitCast(DU(), u), hn::Set(DU(), kSqrtHalfBits)),
                              hn::Set(DU(), 0xff800000u));
  const VF m = hn::BitCast(DF(), hn::Sub(hn::BitCast(DU(), u), exponent));
  const VF inverse_power = hn::BitCast(DF(), hn::Sub(hn::Set(DU(), 0x3f800000u), exponent));
  const VF f = hn::MulAdd(lost, inverse_power, hn::Sub(m, one));
  const VF k =
      hn::Sub(hn::BitCast(DF(), hn::Or(hn::Set(DU(), 0x4b000000u), hn::ShiftRight<23>(exponent))),
              SetF(0x1p+23f));
  VF p = SetF(kC[8]);
  for (int i = 7; i >= 0; --i) p = hn::MulAdd(p, f, SetF(kC[i]));
  const VF square = hn::Mul(f, f);
  VF tail = hn::Mul(hn::Mul(square, f), p);
  tail = hn::MulAdd(k, SetF(kLn2Low), tail);
  tail = hn::MulAdd(square, SetF(-0.5f), tail);
  const VF result = hn::MulAdd(k, SetF(kLn2High), hn::Add(f, tail));
  return hn::IfThenElse(hn::Lt(e, SetF(kInfinity)), result, hn::Add(e, e));
}

HWY_INLINE VF OnePlusExpNeg(VF x) { return hn::Add(SetF(1.0f), Exp(hn::Neg(x))); }

HWY_INLINE VF Sigmoid(VF x) { return hn::Div(SetF(1.0f), OnePlusExpNeg(x)); }

HWY_INLINE VF Silu(VF x) { return hn::Div(x, OnePlusExpNeg(x)); }

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
