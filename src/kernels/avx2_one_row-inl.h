// The integer product of one row for AVX2: a panel streams by, several vectors of outputs at a
// time. P as in avx2_tile-inl.h.
#pragma once

#include <algorithm>

#include "kernels/avx2_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

template <class P>
struct Avx2OneRow {
  using L = Avx2Vectors;
  using Group = IntegerGroup<L>;
  using Ints = L::Ints;

  // dots += the products of steps [begin, end); prefetches for all of the panel's if `ahead`.
  template <size_t kVectors>
  static SS_INLINE void AddSteps(const std::byte* words, size_t step_bytes, size_t begin,
                                 size_t end, const std::byte* codes, bool ahead,
                                 Ints (&sums)[kVectors]) {
    for (size_t step = begin; step < end; ++step) {
      const std::byte* at = words + step * step_bytes;
      if (ahead) Group::Prefetch<checkpoint::kPanelOutputs * 4>(at);
      Ints inputs[P::kWords];
#pragma GCC unroll 4
      for (size_t word = 0; word < P::kWords; ++word) {
        inputs[word] = L::Inputs(codes + (step * P::kWords + word) * 4);
      }
#pragma GCC unroll 8
      for (size_t v = 0; v < kVectors; ++v) {
        const L::Bytes held = L::LoadWords(at + v * L::kLanes * 4);
#pragma GCC unroll 4
        for (size_t word = 0; word < P::kWords; ++word) {
          sums[v] = P::MultiplyAdd(sums[v], P::Nibbles(held, word), inputs[word]);
        }
      }
    }
  }

  // outputs of one panel, kVectors vectors at a time within each group.
  template <size_t kVectors>
  static void Panel(const std::byte* panel, const PanelShape& shape, size_t lanes,
                    const std::byte* x, float* outputs) {
    std::memset(outputs, 0, lanes * sizeof(float));
    const IntegerRow<P::kTerms> row(x, shape.k);
    const size_t step_bytes = lanes * 4;
    const size_t steps = shape.group / 8;
    const std::byte* codes = row.codes;
    for (size_t g = 0; g < shape.groups(); ++g, codes += P::kTerms * shape.group) {
      const std::byte* scales = panel + step_bytes * steps;
      const std::byte* biases = scales + lanes * 2;
      for (size_t lane = 0; lane < lanes; lane += kVectors * L::kLanes) {
        const std::byte* words = panel + lane * 4;
        Ints dots[kVectors];
#pragma GCC unroll 8
        for (size_t v = 0; v < kVectors; ++v) dots[v] = L::SetInt(row.sums[g].centre);
        if constexpr (P::kSteps == SIZE_MAX) {
          AddSteps(words, step_bytes, 0, steps, codes, lane == 0, dots);
        } else {
          for (size_t step = 0; step < steps; step += P::kSteps) {
            Ints sums[kVectors] = {};
            AddSteps(words, step_bytes, step, std::min(step + P::kSteps, steps), codes, lane == 0,
                     sums);
#pragma GCC unroll 8
            for (size_t v = 0; v < kVectors; ++v) dots[v] = L::Add(dots[v], P::Widen(sums[v]));
          }
        }
#pragma GCC unroll 8
        for (size_t v = 0; v < kVectors; ++v) {
          const size_t at = lane + v * L::kLanes;
          Group::Combine(dots[v], row.sums[g], Group::Weights(scales + at * 2, biases + at * 2),
                         outputs + at);
        }
      }
      panel = biases + lanes * 2;
    }
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
