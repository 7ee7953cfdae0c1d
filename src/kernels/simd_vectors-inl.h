// Norms, activations and other operations along one vector.
#pragma once

#include <cmath>

#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

inline float InverseRms(const float* x, size_t n, float eps) {
  return 1.0f / std::sqrt(Dot16(x, x, n) / static_cast<float>(n) + eps);
}

inline float MaxOf(const float* x, size_t n) {
  VF max = SetF(x[0]);
  ForEachVector(n, [&](size_t i, auto span) HWY_ATTR {
    VF xi = Load(x + i, span);
    if constexpr (std::is_same_v<decltype(span), Part>) {
      xi = hn::IfThenElse(hn::FirstN(DF(), span.lanes), xi, max);
    }
    max = hn::IfThenElse(hn::Gt(xi, max), xi, max);
  });
  HWY_ALIGN float lanes[kLanes];
  hn::Store(max, DF(), lanes);
  float result = lanes[0];
  for (size_t i = 1; i < kLanes; ++i) result = lanes[i] > result ? lanes[i] : result;
  return result;
}

// x = Exp(x - max x); returns Sum16 of the result.
inline float ExpBelowMax(float* x, size_t n) {
  const VF max = SetF(MaxOf(x, n));
  ForEachVector(n, [=](size_t i, auto span)
                       HWY_ATTR { Store(Exp(hn::Sub(Load(x + i, span), max)), x + i, span); });
  return Sum16(x, n);
}

inline void RmsNorm(const float* x, const float* weight, size_t n, float eps, float* y) {
  const VF inverse = SetF(InverseRms(x, n, eps));
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    Store(hn::Mul(hn::Mul(Load(x + i, span), inverse), Load(weight + i, span)), y + i, span);
  });
}

inline void L2Norm(float* x, size_t n, float eps, float scale) {
  const VF factor = SetF((1.0f / std::sqrt(Dot16(x, x, n) + eps)) * scale);
  ForEachVector(n, [=](size_t i, auto span)
                       HWY_ATTR { Store(hn::Mul(Load(x + i, span), factor), x + i, span); });
}

inline void GatedRmsNorm(float* x, const float* weight, const float* gate, size_t n, float eps,
                         bool silu_gate) {
  const VF inverse = SetF(InverseRms(x, n, eps));
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    const VF g = Load(gate + i, span);
    const VF factor = silu_gate ? Silu(g) : Sigmoid(g);
    const VF normed = hn::Mul(hn::Mul(Load(x + i, span), inverse), Load(weight + i, span));
    Store(hn::Mul(normed, factor), x + i, span);
  });
}

inline void Add(const float* x, size_t n, float* y) {
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    Store(hn::Add(Load(y + i, span), Load(x + i, span)), y + i, span);
  });
}

inline void Axpy(float a, const float* x, size_t n, float* y) {
  const VF va = SetF(a);
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    Store(hn::MulAdd(va, Load(x + i, span), Load(y + i, span)), y + i, span);
  });
}

inline void Scale(float a, const float* x, size_t n, float* y) {
  const VF va = SetF(a);
  ForEachVector(
      n, [=](size_t i, auto span) HWY_ATTR { Store(hn::Mul(va, Load(x + i, span)), y + i, span); });
}

inline void SiluScaled(float* x, size_t n, float scale) {
  const VF factor = SetF(scale);
  ForEachVector(n, [=](size_t i, auto span)
                       HWY_ATTR { Store(Silu(hn::Mul(Load(x + i, span), factor)), x + i, span); });
}

inline void SiluMul(const float* gate, const float* up, size_t n, float* out) {
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    Store(hn::Mul(Silu(Load(gate + i, span)), Load(up + i, span)), out + i, span);
  });
}

inline void SigmoidMul(float* x, const float* gate, size_t n) {
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    Store(hn::Mul(Load(x + i, span), Sigmoid(Load(gate + i, span))), x + i, span);
  });
}

inline void ExpInPlace(float* x, size_t n) {
  ForEachVector(n,
                [=](size_t i, auto span) HWY_ATTR { Store(Exp(Load(x + i, span)), x + i, span); });
}

inline void Softmax(float* x, size_t n) {
  const VF sum = SetF(ExpBelowMax(x, n));
  ForEachVector(n, [=](size_t i, auto span)
                       HWY_ATTR { Store(hn::Div(Load(x + i, span), sum), x + i, span); });
}

inline void Rope(float* x, const float* cos, const float* sin, size_t half) {
  ForEachVector(half, [=](size_t i, auto span) HWY_ATTR {
    const VF first = Load(x + i, span);
    const VF second = Load(x + half + i, span);
    const VF c = Load(cos + i, span);
    const VF s = Load(sin + i, span);
    Store(hn::MulSub(first, c, hn::Mul(second, s)), x + i, span);
    Store(hn::MulAdd(second, c, hn::Mul(first, s)), x + half + i, span);
  });
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
