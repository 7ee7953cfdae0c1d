// Pieces of layers that combine several vectors: hyper-connection mix, convolution, the gates and
// the recurrence of the delta rule.
#pragma once

#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

inline void HcMix(const float* gate, const float* normed, size_t streams, size_t n, float* x) {
  const VF mean = SetF(1.0f / static_cast<float>(streams));
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    VF acc = hn::Zero(DF());
    for (size_t s = 0; s < streams; ++s) {
      const VF g = Sigmoid(Load(gate + s * n + i, span));
      acc = hn::MulAdd(g, Load(normed + s * n + i, span), acc);
    }
    Store(hn::Mul(acc, mean), x + i, span);
  });
}

inline void ConvSilu(const float* const* taps, const float* weight, size_t kernel, size_t n,
                     float* out) {
  ForEachVector(n, [=](size_t c, auto span) HWY_ATTR {
    VF acc = hn::Zero(DF());
    for (size_t j = 0; j < kernel; ++j) {
      acc = hn::MulAdd(Load(weight + j * n + c, span), Load(taps[j] + c, span), acc);
    }
    Store(Silu(acc), out + c, span);
  });
}

inline void DeltaGates(const float* a, const float* b, const float* neg_a, const float* dt_bias,
                       size_t n, float* decay, float* beta) {
  ForEachVector(n, [=](size_t i, auto span) HWY_ATTR {
    const VF y = hn::Add(Load(a + i, span), Load(dt_bias + i, span));
    const VF softplus = hn::IfThenElse(hn::Gt(y, SetF(20.0f)), y, Log1p(Exp(y)));
    const VF betas = Sigmoid(Load(b + i, span));
    Store(Exp(hn::Mul(Load(neg_a + i, span), softplus)), decay + i, span);
    Store(betas, beta + i, span);
  });
}

// The value columns [column, column + kVectors vectors) of all tokens. The first sweep over the
// keys only reads the state; the second computes decay * S again, which costs less than a store.
template <size_t kVectors, class Span>
HWY_INLINE void DeltaRuleColumns(const DeltaRuleArgs& args, size_t column, Span span) {
  float* state = args.state + column;
  for (size_t t = 0; t < args.tokens; ++t) {
    const float* q = args.query.row(t);
    const float* k = args.key.row(t);
    const VF decay = SetF(args.decay.row(t)[0]);
    const VF beta = SetF(args.beta.row(t)[0]);

    VF acc[kVectors];
    HWY_UNROLL(8)
    for (size_t j = 0; j < kVectors; ++j) acc[j] = hn::Zero(DF());
    for (size_t i = 0; i < args.key_dim; ++i) {
      const float* s = state + i * args.value_dim;
      const VF ki = SetF(k[i]);
      HWY_UNROLL(8)
      for (size_t j = 0; j < kVectors; ++j) {
        acc[j] = hn::MulAdd(ki, hn::Mul(decay, Load(s + j * kLanes, span)), acc[j]);
      }
    }

    VF d[kVectors];
    VF out[kVectors];
    HWY_UNROLL(8)
    for (size_t j = 0; j < kVectors; ++j) {
      const VF v = Load(args.value.row(t) + column + j * kLanes, span);
      d[j] = hn::Mul(beta, hn::Sub(v, acc[j]));
      out[j] = hn::Zero(DF());
    }
    for (size_t i = 0; i < args.key_dim; ++i) {
      float* s = state + i * args.value_dim;
      const VF ki = SetF(k[i]);
      const VF qi = SetF(q[i]);
      HWY_UNROLL(8)
      for (size_t j = 0; j < kVectors; ++j) {
        const VF decayed = hn::Mul(decay, Load(s + j * kLanes, span));
        const VF updated = hn::MulAdd(ki, d[j], decayed);
        Store(updated, s + j * kLanes, span);
        out[j] = hn::MulAdd(qi, updated, out[j]);
      }
    }
    HWY_UNROLL(8)
    for (size_t j = 0; j < kVectors; ++j) {
      Store(out[j], args.output.row(t) + column + j * kLanes, span);
    }
  }
}

inline void DeltaRule(const DeltaRuleArgs& args) {
  // d, out, and a few more stay in registers.
  constexpr size_t kVectors = kManyRegisters ? 8 : 4;
  size_t column = 0;
  for (; column + kVectors * kLanes <= args.value_dim; column += kVectors * kLanes) {
    DeltaRuleColumns<kVectors>(args, column, Whole());
  }
  for (; column + kLanes <= args.value_dim; column += kLanes) {
    DeltaRuleColumns<1>(args, column, Whole());
  }
  if (column < args.value_dim) DeltaRuleColumns<1>(args, column, Part{args.value_dim - column});
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
