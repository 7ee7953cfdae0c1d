// The integer product of one row: a panel streams by, several vectors of outputs at a time.
#pragma once

#include "kernels/integer_group-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

template <class L, size_t kTerms>
struct IntegerOneRow : IntegerGroup<L> {
  using Ints = typename L::Ints;
  using Floats = typename L::Floats;
  using Bytes = typename L::Bytes;
  using Partial = typename L::Partial;
  using typename IntegerGroup<L>::Weights;
  using IntegerGroup<L>::Combine;

  // One group of kVectors vectors of outputs; prefetches for all of the panel's if `ahead`.
  template <size_t kVectors>
  static SS_INLINE void OneRowGroup(const std::byte* words, size_t step_bytes, size_t group,
                                    const std::byte* codes, const GroupSum& sum,
                                    const std::byte* scales, const std::byte* biases, float* y,
                                    bool ahead) {
    Ints dots[kVectors];
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) dots[v] = L::SetInt(sum.centre);
    for (size_t k = 0; k < group;) {
      const size_t left = (group - k) / 8;
      const size_t end = k + 8 * (left < L::kPartialSteps ? left : L::kPartialSteps);
      Partial high[kVectors];
      Partial low[kVectors];
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) {
        if constexpr (kTerms == 2) high[v] = L::Begin();
        low[v] = L::Begin();
      }
      for (; k < end; k += 8, words += step_bytes) {
        if (ahead) IntegerGroup<L>::template Prefetch<checkpoint::kPanelOutputs * 4>(words);
        Bytes loaded[kVectors];
#pragma GCC unroll 16
        for (size_t v = 0; v < kVectors; ++v) loaded[v] = L::LoadWords(words + v * L::kLanes * 4);
        const std::byte* low_codes = codes + (kTerms - 1) * group + k;
#pragma GCC unroll 2
        for (size_t half = 0; half < 2; ++half) {
          Bytes nibbles[kVectors];
#pragma GCC unroll 16
          for (size_t v = 0; v < kVectors; ++v) {
            nibbles[v] = half == 0 ? L::Low(loaded[v]) : L::High(loaded[v]);
          }
          if constexpr (kTerms == 2) {
            const Bytes inputs = L::Inputs(codes + k + half * 4);
#pragma GCC unroll 16
            for (size_t v = 0; v < kVectors; ++v) high[v] = L::Dot(high[v], nibbles[v], inputs);
          }
          const Bytes inputs = L::Inputs(low_codes + half * 4);
#pragma GCC unroll 16
          for (size_t v = 0; v < kVectors; ++v) low[v] = L::Dot(low[v], nibbles[v], inputs);
        }
      }
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) {
        dots[v] = L::template End<0>(low[v], dots[v]);
        if constexpr (kTerms == 2) dots[v] = L::template End<8>(high[v], dots[v]);
      }
    }
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) {
      Combine(dots[v], sum, Weights(scales + v * L::kLanes * 2, biases + v * L::kLanes * 2),
              y + v * L::kLanes);
    }
  }

  template <size_t kVectors>
  static void OneRow(const std::byte* panel, const PanelShape& shape, size_t lanes,
                     const std::byte* x, float* outputs) {
    std::memset(outputs, 0, lanes * sizeof(float));
    const IntegerRow<kTerms> row(x, shape.k);
    const size_t step_bytes = lanes * 4;
    const size_t word_bytes = step_bytes * (shape.group / 8);
    for (size_t g = 0; g < shape.groups(); ++g) {
      const std::byte* scales = panel + word_bytes;
      const std::byte* biases = scales + lanes * 2;
      for (size_t lane = 0; lane < lanes; lane += kVectors * L::kLanes) {
        OneRowGroup<kVectors>(panel + lane * 4, step_bytes, shape.group,
                              row.codes + g * kTerms * shape.group, row.sums[g], scales + lane * 2,
                              biases + lane * 2, outputs + lane, lane == 0);
      }
      panel = biases + lanes * 2;
    }
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
