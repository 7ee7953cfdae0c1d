// The integer product of one row in 256 bits: panels stream by, group by group. P as in
// avx2_tile-inl.h.
#pragma once

#include <algorithm>

#include "kernels/avx2_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

// Panels that a thread reads at a time, each group of the one followed by the same group of the
// next. Measured from memory, beside one panel after the other: on Zen 3 two give 1.09 to 1.25
// times its rate, three 1.0 to 1.1, four and eight 0.9 to 1.0; on a Xeon with AVX-VNNI two give 1.1
// to 1.2 times. (Products in 512 bits gain nothing: they were as fast as a plain read before.)
inline constexpr uint32_t kPanelsAtOnce = 2;

template <class P>
struct Avx2OneRow {
  using L = Avx2Vectors;
  using Group = IntegerGroup<L>;
  using Ints = L::Ints;

  static constexpr size_t kWholePanel = checkpoint::kPanelOutputs / L::kLanes;

  // sums += the products of `steps` steps, each step_bytes after the last; prefetches as much from
  // `ahead` on.
  template <size_t kVectors>
  static SS_INLINE void AddSteps(const std::byte* words, size_t step_bytes, size_t steps,
                                 const std::byte* codes, const std::byte* ahead,
                                 Ints (&sums)[kVectors]) {
    for (size_t step = 0; step < steps; ++step, words += step_bytes, codes += P::kWords * 4) {
      PrefetchLines<kVectors * L::kLanes * 4>(ahead);
      ahead += step_bytes;
      Ints inputs[P::kWords];
#pragma GCC unroll 4
      for (size_t word = 0; word < P::kWords; ++word) inputs[word] = L::Inputs(codes + word * 4);
#pragma GCC unroll 8
      for (size_t v = 0; v < kVectors; ++v) {
        const L::Bytes held = L::LoadWords(words + v * L::kLanes * 4);
#pragma GCC unroll 4
        for (size_t word = 0; word < P::kWords; ++word) {
          sums[v] = P::MultiplyAdd(sums[v], P::Nibbles(held, word), inputs[word]);
        }
      }
    }
  }

  // One group of kVectors vectors of outputs, whose words begin at `words`.
  template <size_t kVectors>
  static SS_INLINE void OneGroup(const std::byte* words, size_t step_bytes, size_t steps,
                                 const std::byte* codes, const GroupSum& sum,
                                 const std::byte* scales, const std::byte* biases,
                                 const std::byte* ahead, float* outputs) {
    Ints dots[kVectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) dots[v] = L::SetInt(sum.centre);
    if constexpr (P::kSteps == SIZE_MAX) {
      AddSteps(words, step_bytes, steps, codes, ahead, dots);
    } else {
      for (size_t step = 0; step < steps; step += P::kSteps) {
        Ints sums[kVectors] = {};
        AddSteps(words + step * step_bytes, step_bytes, std::min(P::kSteps, steps - step),
                 codes + step * P::kWords * 4, ahead + step * step_bytes, sums);
#pragma GCC unroll 8
        for (size_t v = 0; v < kVectors; ++v) dots[v] = L::Add(dots[v], P::Widen(sums[v]));
      }
    }
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t at = v * L::kLanes;
      Group::Combine(dots[v], sum, Group::Weights(scales + at * 2, biases + at * 2), outputs + at);
    }
  }

  // outputs of one panel of any width.
  static void Panel(const std::byte* panel, const PanelShape& shape, size_t lanes,
                    const std::byte* x, float* outputs) {
    if (lanes == checkpoint::kPanelOutputs) {
      WholePanels<1>(panel, shape, x, outputs);
      return;
    }
    constexpr size_t kVectors = checkpoint::kLaneStep / L::kLanes;
    std::memset(outputs, 0, lanes * sizeof(float));
    const IntegerRow<P::kTerms> row(x, shape.k);
    const size_t step_bytes = lanes * 4;
    const size_t steps = shape.group / 8;
    for (size_t g = 0; g < shape.groups(); ++g) {
      const std::byte* scales = panel + step_bytes * steps;
      const std::byte* biases = scales + lanes * 2;
      for (size_t lane = 0; lane < lanes; lane += checkpoint::kLaneStep) {
        const std::byte* words = panel + lane * 4;
        OneGroup<kVectors>(words, step_bytes, steps, row.codes + g * P::kTerms * shape.group,
                           row.sums[g], scales + lane * 2, biases + lane * 2,
                           words + kIntegerPrefetchBytes, outputs + lane);
      }
      panel = biases + lanes * 2;
    }
  }

  // outputs of kCount panels of full width that lie one after the other, read at the same time.
  template <size_t kCount>
  static void WholePanels(const std::byte* panels, const PanelShape& shape, const std::byte* x,
                          float* outputs) {
    constexpr size_t kStepBytes = checkpoint::kPanelOutputs * 4;
    std::memset(outputs, 0, kCount * checkpoint::kPanelOutputs * sizeof(float));
    const IntegerRow<P::kTerms> row(x, shape.k);
    const size_t steps = shape.group / 8;
    const size_t group_bytes = steps * kStepBytes + kStepBytes;  // words, scales and biases
    const size_t panel_bytes = shape.groups() * group_bytes;
    for (size_t g = 0; g < shape.groups(); ++g, panels += group_bytes) {
#pragma GCC unroll 2
      for (size_t p = 0; p < kCount; ++p) {
        const std::byte* words = panels + p * panel_bytes;
        const std::byte* scales = words + steps * kStepBytes;
        // With several panels, what comes next; after the last groups other panels.
        const std::byte* next = p + 1 < kCount ? words + panel_bytes : panels + group_bytes;
        if (p + 1 == kCount && g + 1 == shape.groups()) next = words + group_bytes;
        const std::byte* ahead = kCount == 1 ? words + kIntegerPrefetchBytes : next;
        OneGroup<kWholePanel>(words, kStepBytes, steps, row.codes + g * P::kTerms * shape.group,
                              row.sums[g], scales, scales + kStepBytes / 2, ahead,
                              outputs + p * checkpoint::kPanelOutputs);
        if constexpr (kCount > 1) PrefetchLines<kStepBytes>(ahead + steps * kStepBytes);
      }
    }
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
