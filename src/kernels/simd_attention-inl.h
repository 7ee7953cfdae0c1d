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

// Positions whose keys, then values, all heads use while they are in the first-level cache (16 KB
// at 256 dimensions): the heads of a model share a few megabytes of either.
inline constexpr size_t kSharedPositions = 16;

// scores = scale * Dot16(query, keys[t]) for t in [first, last), of one head.
inline void ScoreKeys(const AttentionArgs& args, const float* query, size_t first, size_t last,
                      float* scores) {
  size_t t = first;
  for (; t + 4 <= last; t += 4) {
    const V4 dots = FourDots(args.keys + t, query, args.dim);
    hn::StoreU(hn::Mul(dots, hn::Set(D4(), args.scale)), D4(), scores + t);
  }
  for (; t < last; ++t) scores[t] = Dot16(args.keys[t], query, args.dim) * args.scale;
}

// output = fma(p[t], values[t], output) for t in [first, last), of one head.
inline void AddValues(const AttentionArgs& args, const float* p, size_t first, size_t last,
                      float* output) {
  constexpr size_t kPositions = 8;
  size_t t = first;
  for (; t + kPositions <= last; t += kPositions) {
    AccumulateValues<kPositions>(p + t, args.values + t, args.dim, output);
  }
  for (; t < last; ++t) AccumulateValues<1>(p + t, args.values + t, args.dim, output);
}

inline void Attention(const AttentionArgs& args) {
  const size_t stride = args.count + 1;  // a head's scores, then the inverse of their sum
  for (size_t first = 0; first < args.count; first += kSharedPositions) {
    const size_t last = HWY_MIN(first + kSharedPositions, args.count);
    for (size_t h = 0; h < args.heads; ++h) {
      ScoreKeys(args, args.query + h * args.query_stride, first, last, args.scores + h * stride);
    }
  }
  for (size_t h = 0; h < args.heads; ++h) {
    float* p = args.scores + h * stride;
    p[args.count] = 1.0f / ExpBelowMax(p, args.count);
    std::memset(args.output + h * args.output_stride, 0, args.dim * sizeof(float));
  }
  for (size_t first = 0; first < args.count; first += kSharedPositions) {
    const size_t last = HWY_MIN(first + kSharedPositions, args.count);
    for (size_t h = 0; h < args.heads; ++h) {
      AddValues(args, args.scores + h * stride, first, last, args.output + h * args.output_stride);
    }
  }
  for (size_t h = 0; h < args.heads; ++h) {
    float* output = args.output + h * args.output_stride;
    Scale(args.scores[h * stride + args.count], output, args.dim, output);
  }
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
