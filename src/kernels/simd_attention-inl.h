// Attention over selected positions, and the indexer's scores.
#pragma once

#include "kernels/simd_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

inline void IndexScores(const float* query, size_t heads, size_t dim, const float* keys,
                        size_t count, float scale, float* scores) {
  for (size_t b = 0; b < count; ++b) {
    const float* key = keys + b * dim;
    float sum = 0;
    size_t h = 0;
    for (; h + 4 <= heads; h += 4) {
      const float* q[4];
      for (size_t j = 0; j < 4; ++j) q[j] = query + (h + j) * dim;
      HWY_ALIGN float dots[4];
      hn::Store(FourDots(q, key, dim), D4(), dots);
      for (float dot : dots) sum = sum + (dot > 0 ? dot : 0.0f);
    }
    for (; h < heads; ++h) {
      const float dot = Dot16(query + h * dim, key, dim);
      sum = sum + (dot > 0 ? dot : 0.0f);
    }
    scores[b] = scale * sum;
  }
}

// o = fma(p[t], values[t], o) for t in [0, kPositions): several positions per sweep over o save its
// loads and stores, and the rows of values are read forward.
template <size_t kPositions>
HWY_INLINE void AccumulateValues(const float* p, const float* const* values, size_t dim, float* o) {
  VF weights[kPositions];
  HWY_UNROLL(8)
  for (size_t t = 0; t < kPositions; ++t) weights[t] = SetF(p[t]);
  ForEachVector(dim, [&](size_t i, auto span) HWY_ATTR {
    VF acc = Load(o + i, span);
    HWY_UNROLL(8)
    for (size_t t = 0; t < kPositions; ++t) {
      acc = hn::MulAdd(weights[t], Load(values[t] + i, span), acc);
    }
    Store(acc, o + i, span);
  });
}

inline void AttentionHead(const AttentionArgs& args, const float* query, float* output) {
  float* p = args.scores;
  size_t t = 0;
  for (; t + 4 <= args.count; t += 4) {
    const V4 dots = FourDots(args.keys + t, query, args.dim);
    hn::StoreU(hn::Mul(dots, hn::Set(D4(), args.scale)), D4(), p + t);
  }
  for (; t < args.count; ++t) p[t] = Dot16(args.keys[t], query, args.dim) * args.scale;

  const float inverse = 1.0f / ExpBelowMax(p, args.count);

  constexpr size_t kPositions = 8;
  std::memset(output, 0, args.dim * sizeof(float));
  for (t = 0; t + kPositions <= args.count; t += kPositions) {
    AccumulateValues<kPositions>(p + t, args.values + t, args.dim, output);
  }
  for (; t < args.count; ++t) AccumulateValues<1>(p + t, args.values + t, args.dim, output);
  Scale(inverse, output, args.dim, output);
}

inline void Attention(const AttentionArgs& args) {
  for (size_t h = 0; h < args.heads; ++h) {
    AttentionHead(args, args.query + h * args.query_stride, args.output + h * args.output_stride);
  }
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
