// The product of few rows with 4-bit panels. Up to six rows share one pass over a panel, strictly
// forward, whose values become floats in registers.
#pragma once

#include <iterator>

#include <hwy/cache_control.h>
#include "kernels/simd_nibbles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

inline constexpr size_t kPanelOutputs = checkpoint::kPanelOutputs;

// Vectors of words in registers at a time. Holding 2 at six rows, to fit the registers better,
// makes GCC keep every input of a step in registers instead: twice the spills.
inline constexpr size_t kHeldWords = 4;
// How far ahead of the words a panel is prefetched. The processors' own prefetchers stop at pages
// of 4 KiB, every second group; measured on Zen 3 from memory: 8.2 GB/s a thread against 6.7.
inline constexpr size_t kPrefetchBytes = 4096;

// Asks for the kBytes that lie kPrefetchBytes further on; they need not exist.
template <size_t kBytes>
HWY_INLINE void PrefetchWords(const std::byte* words) {
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(words) + kPrefetchBytes;
  HWY_UNROLL(4)
  for (size_t i = 0; i < kBytes; i += 64) hwy::Prefetch(reinterpret_cast<const char*>(ahead + i));
}

// Running outputs of one panel for one row.
struct PanelOutputs {
  HWY_ALIGN float y[kPanelOutputs];
};

// Copies what exists of panel p's outputs to row y.
HWY_INLINE void StorePanelOutputs(const PanelShape& shape, uint32_t p, const float* from,
                                  float* y) {
  const size_t first = size_t{p} * kPanelOutputs;
  std::memcpy(y + first, from, HWY_MIN(kPanelOutputs, shape.n - first) * sizeof(float));
}

// acc = fma(value, x, acc) for values kIndex to 7 of the words of one step; the first vector of
// words belongs to acc[.][kFirst].
template <int kIndex, size_t kFirst, size_t kHeld, size_t kRows, size_t kVectors>
HWY_INLINE void MulAddStep(const VU (&words)[kHeld], const float* const* x, size_t k,
                           VF (&acc)[kRows][kVectors]) {
  if constexpr (kIndex < 8) {
    VF q[kHeld];
    HWY_UNROLL(4)
    for (size_t v = 0; v < kHeld; ++v) q[v] = CentredNibble<kIndex>(words[v]);
    HWY_UNROLL(8)
    for (size_t r = 0; r < kRows; ++r) {
      const VF xk = SetF(x[r][k + kIndex]);
      HWY_UNROLL(4)
      for (size_t v = 0; v < kHeld; ++v) {
        acc[r][kFirst + v] = hn::MulAdd(q[v], xk, acc[r][kFirst + v]);
      }
    }
    MulAddStep<kIndex + 1, kFirst>(words, x, k, acc);
  }
}

// One step for the vectors from kFirst on.
template <size_t kFirst, size_t kRows, size_t kVectors>
HWY_INLINE void MulAddWords(const std::byte* words, const float* const* x, size_t k,
                            VF (&acc)[kRows][kVectors]) {
  if constexpr (kFirst < kVectors) {
    constexpr size_t kHeld = HWY_MIN(kHeldWords, kVectors - kFirst);
    VU held[kHeld];
    HWY_UNROLL(4)
    for (size_t v = 0; v < kHeld; ++v) held[v] = LoadPanelWords(words + (kFirst + v) * kLanes * 4);
    MulAddStep<0, kFirst>(held, x, k, acc);
    MulAddWords<kFirst + kHeld>(words, x, k, acc);
  }
}

// One group of kVectors vectors of outputs: `words` points at the first step's words for them,
// scales and biases at theirs; x[r] at the group's inputs, y[r] at the running outputs.
template <size_t kRows, size_t kVectors>
HWY_INLINE void PanelGroup(const std::byte* words, size_t step_bytes, size_t group,
                           const std::byte* scales, const std::byte* biases, const float* const* x,
                           const float* sums, float* const* y) {
  VF acc[kRows][kVectors];
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (size_t v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(DF());
  }
  for (size_t k = 0; k < group; k += 8, words += step_bytes) {
    PrefetchWords<kVectors * kLanes * 4>(words);
    MulAddWords<0>(words, x, k, acc);
  }
  HWY_UNROLL(16)
  for (size_t v = 0; v < kVectors; ++v) {
    const VF scale = LoadBf16(scales + v * kLanes * 2);
    const VF offset =
        hn::MulAdd(hn::Set(DF(), kNibbleCentre), scale, LoadBf16(biases + v * kLanes * 2));
    HWY_UNROLL(8)
    for (size_t r = 0; r < kRows; ++r) {
      float* out = y[r] + v * kLanes;
      const VF with_offset = hn::MulAdd(offset, SetF(sums[r]), hn::Load(DF(), out));
      hn::Store(hn::MulAdd(scale, acc[r][v], with_offset), DF(), out);
    }
  }
}

// All outputs of one panel, kVectors at a time within each group.
template <size_t kRows, size_t kVectors>
HWY_INLINE void WholePanel(const std::byte* panel, const PanelShape& shape, size_t lanes,
                           ConstRows x, ConstRows sums, PanelOutputs* outputs) {
  for (size_t r = 0; r < kRows; ++r) std::memset(outputs[r].y, 0, sizeof outputs[r].y);
  const size_t step_bytes = lanes * 4;
  const size_t word_bytes = step_bytes * (shape.group / 8);
  for (size_t g = 0; g < shape.groups(); ++g) {
    const float* xg[kRows];
    float sum[kRows];
    HWY_UNROLL(8)
    for (size_t r = 0; r < kRows; ++r) {
      xg[r] = x.row(r) + g * shape.group;
      sum[r] = sums.row(r)[g];
    }
    const std::byte* scales = panel + word_bytes;
    const std::byte* biases = scales + lanes * 2;
    for (size_t lane = 0; lane < lanes; lane += kVectors * kLanes) {
      float* y[kRows];
      HWY_UNROLL(8)
      for (size_t r = 0; r < kRows; ++r) y[r] = outputs[r].y + lane;
      PanelGroup<kRows, kVectors>(panel + lane * 4, step_bytes, shape.group, scales + lane * 2,
                                  biases + lane * 2, xg, sum, y);
    }
    panel = biases + lanes * 2;
  }
}

// Panel p for kRows rows: kWide vectors at a time, in a narrower last panel 16 outputs at a time.
template <size_t kRows>
HWY_NOINLINE void PanelRows(const std::byte* panels, const PanelShape& shape, uint32_t p,
                            ConstRows x, ConstRows sums, MutableRows y) {
  // Accumulators that leave registers to the words and values of as many vectors; a quarter of a
  // panel always fits (six rows by two vectors of AVX2: 12 registers).
  constexpr size_t kAccumulators = kManyRegisters ? 24 : 8;
  constexpr size_t kAll = kPanelOutputs / kLanes;
  constexpr size_t kWide = kAccumulators >= kRows * kAll       ? kAll
                           : kAccumulators >= kRows * kAll / 2 ? kAll / 2
                                                               : kAll / 4;
  PanelOutputs outputs[kRows];
  const std::byte* panel = panels + shape.panel_offset(p);
  const size_t lanes = shape.lanes(p);
  if (lanes == kPanelOutputs) {
    WholePanel<kRows, kWide>(panel, shape, kPanelOutputs, x, sums, outputs);
  } else {
    WholePanel<kRows, kBlockVectors>(panel, shape, lanes, x, sums, outputs);
  }
  for (size_t r = 0; r < kRows; ++r) StorePanelOutputs(shape, p, outputs[r].y, y.row(r));
}

using PanelRowsFunction = void (*)(const std::byte*, const PanelShape&, uint32_t, ConstRows,
                                   ConstRows, MutableRows);
inline constexpr PanelRowsFunction kPanelRows[] = {PanelRows<1>, PanelRows<2>, PanelRows<3>,
                                                   PanelRows<4>, PanelRows<5>, PanelRows<6>};

// Panel p for up to a few times six rows.
inline void PanelFewRows(const std::byte* panels, const PanelShape& shape, uint32_t p, ConstRows x,
                         ConstRows sums, size_t rows, MutableRows y) {
  constexpr size_t kMost = std::size(kPanelRows);
  const size_t blocks = (rows + kMost - 1) / kMost;
  for (size_t b = 0; b < blocks; ++b) {
    // Blocks of nearly equal size: 4 and 3 rows cost less than 6 and 1.
    const size_t begin = rows * b / blocks;
    const size_t end = rows * (b + 1) / blocks;
    kPanelRows[end - begin - 1](panels, shape, p, {x.row(begin), x.stride},
                                {sums.row(begin), sums.stride}, {y.row(begin), y.stride});
  }
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
