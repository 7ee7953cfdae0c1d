// The vocabulary of the vector kernels: whole and partial vectors, and the 16 partial sums.
//
// The simd_*-inl.h headers are one text, compiled once per instruction set by avx2_kernels.cc,
// avx512_kernels.cc and neon_kernels.cc, which choose the Highway target before they include them.
// A vector holds 4, 8 or 16 floats; nothing may depend on which, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>
#include "kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using D4 = hn::FixedTag<float, 4>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
using V4 = hn::Vec<D4>;

inline constexpr size_t kLanes = HWY_LANES(float);
inline constexpr size_t kBlockVectors = 16 / kLanes;
// AVX2 has 16 vector registers, AVX-512 and NEON have 32.
inline constexpr bool kManyRegisters = HWY_TARGET != HWY_AVX2;

HWY_INLINE VF SetF(float value) { return hn::Set(DF(), value); }

// --- whole and partial vectors ------------------------------------------------------------------

// How many lanes a load or store covers: all, or the first `lanes`. Partial loads fill with
// zeros; what is then computed in the other lanes is dropped by the partial store.
struct Whole {};
struct Part {
  size_t lanes;
};

HWY_INLINE VF Load(const float* from, Whole) { return hn::LoadU(DF(), from); }
HWY_INLINE VF Load(const float* from, Part part) {
  HWY_ALIGN float buffer[kLanes] = {};
  std::memcpy(buffer, from, part.lanes * sizeof(float));
  return hn::Load(DF(), buffer);
}
HWY_INLINE void Store(VF v, float* to, Whole) { hn::StoreU(v, DF(), to); }
HWY_INLINE void Store(VF v, float* to, Part part) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(v, DF(), buffer);
  std::memcpy(to, buffer, part.lanes * sizeof(float));
}

// Calls body(i, Whole or Part) for the vectors that cover [0, n).
template <class Body>
HWY_INLINE void ForEachVector(size_t n, Body body) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Whole());
  if (i < n) body(i, Part{n - i});
}

// --- blocks of 16 and their sums ----------------------------------------------------------------

// Loops over arrays of vectors are unrolled everywhere: one dynamic index, and GCC keeps the array
// in memory.
struct Block16 {
  VF v[kBlockVectors];
};

HWY_INLINE Block16 ZeroBlock() {
  Block16 block;
  HWY_UNROLL(4)
  for (size_t i = 0; i < kBlockVectors; ++i) block.v[i] = hn::Zero(DF());
  return block;
}

HWY_INLINE Block16 LoadBlock(const float* from) {
  Block16 block;
  HWY_UNROLL(4)
  for (size_t i = 0; i < kBlockVectors; ++i) block.v[i] = hn::LoadU(DF(), from + i * kLanes);
  return block;
}

// The first n of 16 values, then `filler`.
HWY_INLINE Block16 LoadBlockPart(const float* from, size_t n, float filler) {
  HWY_ALIGN float buffer[16];
  for (float& value : buffer) value = filler;
  std::memcpy(buffer, from, n * sizeof(float));
  return LoadBlock(buffer);
}

HWY_INLINE void AddTo(Block16& sum, const Block16& x) {
  HWY_UNROLL(4)
  for (size_t i = 0; i < kBlockVectors; ++i) sum.v[i] = hn::Add(sum.v[i], x.v[i]);
}

HWY_INLINE void MulAddTo(Block16& sum, const Block16& a, const Block16& b) {
  HWY_UNROLL(4)
  for (size_t i = 0; i < kBlockVectors; ++i) sum.v[i] = hn::MulAdd(a.v[i], b.v[i], sum.v[i]);
}

// Fillers that leave every partial sum as it is, even -0: p + -0 = p and fma(+0, -0, p) = p.
inline constexpr float kSumFiller = -0.0f;
inline constexpr float kDotFillerA = 0.0f;
inline constexpr float kDotFillerB = -0.0f;

// The tree's first two levels: p[j] + p[j+8], then + 4.
HWY_INLINE V4 FoldTo4(const Block16& p) {
#if HWY_TARGET == HWY_AVX3
  const auto p8 = hn::Add(hn::LowerHalf(p.v[0]), hn::UpperHalf(hn::FixedTag<float, 8>(), p.v[0]));
  return hn::Add(hn::LowerHalf(p8), hn::UpperHalf(D4(), p8));
#elif HWY_TARGET == HWY_AVX2
  const VF p8 = hn::Add(p.v[0], p.v[1]);
  return hn::Add(hn::LowerHalf(p8), hn::UpperHalf(D4(), p8));
#else
  return hn::Add(hn::Add(p.v[0], p.v[2]), hn::Add(p.v[1], p.v[3]));
#endif
}

// The tree's last two levels, for four sums at once: lane i of the result is the sum of p[i].
HWY_INLINE V4 Fold4(V4 p0, V4 p1, V4 p2, V4 p3) {
  const D4 d;
  const V4 low01 = hn::InterleaveLower(d, p0, p1);   // p0[0] p1[0] p0[1] p1[1]
  const V4 high01 = hn::InterleaveUpper(d, p0, p1);  // p0[2] p1[2] p0[3] p1[3]
  const V4 low23 = hn::InterleaveLower(d, p2, p3);
  const V4 high23 = hn::InterleaveUpper(d, p2, p3);
  const V4 sum01 = hn::Add(low01, high01);
  const V4 sum23 = hn::Add(low23, high23);
  return hn::Add(hn::ConcatLowerLower(d, sum23, sum01), hn::ConcatUpperUpper(d, sum23, sum01));
}

HWY_INLINE V4 Totals(const Block16& p0, const Block16& p1, const Block16& p2, const Block16& p3) {
  return Fold4(FoldTo4(p0), FoldTo4(p1), FoldTo4(p2), FoldTo4(p3));
}

HWY_INLINE float Total(const Block16& p) {
  const V4 folded = FoldTo4(p);
  return hn::GetLane(Fold4(folded, folded, folded, folded));
}

inline float Sum16(const float* v, size_t n) {
  Block16 sum = ZeroBlock();
  size_t i = 0;
  for (; i + 16 <= n; i += 16) AddTo(sum, LoadBlock(v + i));
  if (i < n) AddTo(sum, LoadBlockPart(v + i, n - i, kSumFiller));
  return Total(sum);
}

inline float Dot16(const float* a, const float* b, size_t n) {
  Block16 sum = ZeroBlock();
  size_t i = 0;
  for (; i + 16 <= n; i += 16) MulAddTo(sum, LoadBlock(a + i), LoadBlock(b + i));
  if (i < n) {
    MulAddTo(sum, LoadBlockPart(a + i, n - i, kDotFillerA),
             LoadBlockPart(b + i, n - i, kDotFillerB));
  }
  return Total(sum);
}

// Dot16 of a[0..4) with one b: four chains hide the latency, and b is read once.
HWY_INLINE V4 FourDots(const float* const* a, const float* b, size_t n) {
  Block16 sum[4] = {ZeroBlock(), ZeroBlock(), ZeroBlock(), ZeroBlock()};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const Block16 bi = LoadBlock(b + i);
    HWY_UNROLL(4)
    for (size_t j = 0; j < 4; ++j) MulAddTo(sum[j], LoadBlock(a[j] + i), bi);
  }
  if (i < n) {
    const Block16 bi = LoadBlockPart(b + i, n - i, kDotFillerB);
    HWY_UNROLL(4)
    for (size_t j = 0; j < 4; ++j) {
      MulAddTo(sum[j], LoadBlockPart(a[j] + i, n - i, kDotFillerA), bi);
    }
  }
  return Totals(sum[0], sum[1], sum[2], sum[3]);
}

// --- bf16 ---------------------------------------------------------------------------------------

// kLanes bf16 values from any address, widened.
HWY_INLINE VF LoadBf16(const void* from) {
  using DH = hn::Rebind<uint16_t, DF>;
  using DB = hn::Repartition<uint8_t, DH>;
  const auto bits = hn::BitCast(DH(), hn::LoadU(DB(), static_cast<const uint8_t*>(from)));
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), bits)));
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
