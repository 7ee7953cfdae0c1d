// The product of rows with bf16 weights.
#pragma once

#include "kernels/simd_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

HWY_INLINE Block16 LoadBf16Block(const uint16_t* from) {
  Block16 block;
  HWY_UNROLL(4)
  for (size_t i = 0; i < kBlockVectors; ++i) block.v[i] = LoadBf16(from + i * kLanes);
  return block;
}

HWY_INLINE Block16 LoadBf16BlockPart(const uint16_t* from, size_t n) {
  uint16_t buffer[16] = {};  // zeros: kDotFillerA
  std::memcpy(buffer, from, n * sizeof(uint16_t));
  return LoadBf16Block(buffer);
}

// kOutputs by kRows dot products; w at the first output's weights, y[r] at its place in row r.
template <size_t kOutputs, size_t kRows>
HWY_INLINE void Bf16Tile(const uint16_t* w, size_t k, const float* const* x, float* const* y) {
  Block16 acc[kRows][kOutputs];
  HWY_UNROLL(4)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (size_t o = 0; o < kOutputs; ++o) acc[r][o] = ZeroBlock();
  }
  size_t i = 0;
  for (; i + 16 <= k; i += 16) {
    Block16 wi[kOutputs];
    HWY_UNROLL(4)
    for (size_t o = 0; o < kOutputs; ++o) wi[o] = LoadBf16Block(w + o * k + i);
    HWY_UNROLL(4)
    for (size_t r = 0; r < kRows; ++r) {
      const Block16 xi = LoadBlock(x[r] + i);
      HWY_UNROLL(4)
      for (size_t o = 0; o < kOutputs; ++o) MulAddTo(acc[r][o], wi[o], xi);
    }
  }
  if (i < k) {
    HWY_UNROLL(4)
    for (size_t r = 0; r < kRows; ++r) {
      const Block16 xi = LoadBlockPart(x[r] + i, k - i, kDotFillerB);
      HWY_UNROLL(4)
      for (size_t o = 0; o < kOutputs; ++o) {
        MulAddTo(acc[r][o], LoadBf16BlockPart(w + o * k + i, k - i), xi);
      }
    }
  }
  HWY_UNROLL(4)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (size_t o = 0; o < kOutputs; ++o) y[r][o] = Total(acc[r][o]);
  }
}

template <size_t kOutputs, size_t kRows>
HWY_INLINE void Bf16Rows(const uint16_t* w, size_t k, size_t first, size_t last, ConstRows x,
                         size_t row, MutableRows y) {
  const float* xr[kRows];
  for (size_t r = 0; r < kRows; ++r) xr[r] = x.row(row + r);
  float* yr[kRows];
  size_t o = first;
  for (; o + kOutputs <= last; o += kOutputs) {
    for (size_t r = 0; r < kRows; ++r) yr[r] = y.row(row + r) + o;
    Bf16Tile<kOutputs, kRows>(w + o * k, k, xr, yr);
  }
  for (; o < last; ++o) {
    for (size_t r = 0; r < kRows; ++r) yr[r] = y.row(row + r) + o;
    Bf16Tile<1, kRows>(w + o * k, k, xr, yr);
  }
}

inline void Bf16Product(const uint16_t* w, size_t k, size_t first, size_t last, ConstRows x,
                        size_t rows, MutableRows y) {
  // 12 accumulators of 16 vector registers (AVX2), 12 or 24 of 32 (AVX-512, NEON).
  constexpr size_t kOutputs = kLanes == 16 ? 4 : 2;
  constexpr size_t kRows = 3;
  // A block of outputs whose weights (160 KiB at k = 2560) stay near while the rows pass.
  constexpr size_t kOutputBlock = 32;
  for (size_t begin = first; begin < last; begin += kOutputBlock) {
    const size_t end = HWY_MIN(last, begin + kOutputBlock);
    size_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      Bf16Rows<kOutputs, kRows>(w, k, begin, end, x, row, y);
    }
    for (; row < rows; ++row) Bf16Rows<4, 1>(w, k, begin, end, x, row, y);
  }
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
