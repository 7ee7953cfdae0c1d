// The integer product of many rows: the nibbles of one vector of outputs are held in registers, and
// rows pass by. Tiles over unpacked weights (avx2_tile-inl.h) load less. Measured, they are faster
// where this needs two terms, and with AVX2 for few rows; 0.85 to 0.95 times as fast elsewhere.
#pragma once

#include "kernels/integer_group-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

// Rows whose running outputs of a panel (16 KB) stay in the first-level cache.
inline constexpr size_t kRowBlock = 64;

template <class L, size_t kTerms>
struct IntegerManyRows : IntegerGroup<L> {
  using Ints = typename L::Ints;
  using Floats = typename L::Floats;
  using Bytes = typename L::Bytes;
  using Partial = typename L::Partial;
  using typename IntegerGroup<L>::Weights;
  using IntegerGroup<L>::Combine;

  // dots[r] += sum << kShift of kSteps held steps with one term of each row's codes.
  template <int kShift, size_t kSteps, size_t kRows>
  static SS_INLINE void AddTerm(const Bytes (&nibbles)[2 * kSteps], const std::byte* const* codes,
                                Ints (&dots)[kRows]) {
    Partial partial[kRows];
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) partial[r] = L::Begin();
#pragma GCC unroll 16
    for (size_t i = 0; i < 2 * kSteps; ++i) {
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        partial[r] = L::Dot(partial[r], nibbles[i], L::Inputs(codes[r] + i * 4));
      }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) dots[r] = L::template End<kShift>(partial[r], dots[r]);
  }

  // Where a chunk of held steps lies in its group.
  enum class Place { kOnly, kFirst, kMiddle, kLast };

  // The rows of a block in one chunk of a group: all pointers are those of its first row.
  struct RowBlock {
    const std::byte* codes;  // of the chunk's first step, high term first
    const GroupSum* sums;    // the group's
    size_t stride;           // bytes from row to row, for both
    size_t group;            // bytes from the high to the low term
    size_t rows;
    int32_t* dots;   // [rows][kLanes], from chunk to chunk
    float* outputs;  // [rows][kPanelOutputs]
  };

  // kRows rows; moves the block on.
  template <size_t kSteps, Place kPlace, size_t kRows>
  static SS_INLINE void Rows(const Bytes (&nibbles)[2 * kSteps], RowBlock& block,
                             const Weights& weights) {
    const std::byte* codes[kRows];
    Ints dots[kRows];
#pragma GCC unroll 8
    for (size_t i = 0; i < kRows; ++i) {
      codes[i] = block.codes + i * block.stride;
      dots[i] = L::SetInt(0);
    }
    if constexpr (kTerms == 2) {
      AddTerm<8, kSteps>(nibbles, codes, dots);
#pragma GCC unroll 8
      for (size_t i = 0; i < kRows; ++i) codes[i] += block.group;
    }
    AddTerm<0, kSteps>(nibbles, codes, dots);
#pragma GCC unroll 8
    for (size_t i = 0; i < kRows; ++i) {
      const GroupSum& sum = *reinterpret_cast<const GroupSum*>(
          reinterpret_cast<const std::byte*>(block.sums) + i * block.stride);
      int32_t* between = block.dots + i * L::kLanes;
      constexpr bool kStarts = kPlace == Place::kOnly || kPlace == Place::kFirst;
      constexpr bool kEnds = kPlace == Place::kOnly || kPlace == Place::kLast;
      dots[i] = L::Add(dots[i], kStarts ? L::SetInt(sum.centre) : L::LoadInts(between));
      if constexpr (kEnds) {
        Combine(dots[i], sum, weights, block.outputs + i * checkpoint::kPanelOutputs);
      } else {
        L::StoreInts(dots[i], between);
      }
    }
    block.codes += kRows * block.stride;
    block.sums = reinterpret_cast<const GroupSum*>(reinterpret_cast<const std::byte*>(block.sums) +
                                                   kRows * block.stride);
    block.dots += kRows * L::kLanes;
    block.outputs += kRows * checkpoint::kPanelOutputs;
    block.rows -= kRows;
  }

  template <size_t kSteps, Place kPlace, size_t kRows>
  static SS_INLINE void AllRows(const Bytes (&nibbles)[2 * kSteps], RowBlock& block,
                                const Weights& weights) {
    while (block.rows >= kRows) Rows<kSteps, kPlace, kRows>(nibbles, block, weights);
    if constexpr (kRows > 1) AllRows<kSteps, kPlace, kRows / 2>(nibbles, block, weights);
  }

  // kSteps steps of one vector of outputs, from the one whose words are at `words`.
  template <size_t kSteps, Place kPlace>
  static __attribute__((noinline)) void Chunk(const std::byte* words, size_t step_bytes,
                                              RowBlock block, const std::byte* scales,
                                              const std::byte* biases) {
    Bytes nibbles[2 * kSteps];
#pragma GCC unroll 8
    for (size_t s = 0; s < kSteps; ++s) {
      IntegerGroup<L>::template Prefetch<L::kLanes * 4>(words + s * step_bytes);
      const Bytes loaded = L::LoadWords(words + s * step_bytes);
      nibbles[2 * s] = L::Low(loaded);
      nibbles[2 * s + 1] = L::High(loaded);
    }
    AllRows<kSteps, kPlace, L::kRowsAtOnce>(nibbles, block, Weights(scales, biases));
  }

  // All chunks of a group: held steps as long as there are enough, then one by one.
  template <size_t kSteps>
  static void Group(const std::byte* words, size_t step_bytes, size_t step, size_t steps,
                    const RowBlock& group, const std::byte* scales, const std::byte* biases) {
    for (; step + kSteps <= steps; step += kSteps) {
      const std::byte* at = words + step * step_bytes;
      RowBlock block = group;
      block.codes += step * 8;
      const bool first = step == 0;
      const bool last = step + kSteps == steps;
      if (first && last) {
        Chunk<kSteps, Place::kOnly>(at, step_bytes, block, scales, biases);
      } else if (first) {
        Chunk<kSteps, Place::kFirst>(at, step_bytes, block, scales, biases);
      } else if (last) {
        Chunk<kSteps, Place::kLast>(at, step_bytes, block, scales, biases);
      } else {
        Chunk<kSteps, Place::kMiddle>(at, step_bytes, block, scales, biases);
      }
    }
    if constexpr (kSteps > 1) {
      if (step < steps) Group<1>(words, step_bytes, step, steps, group, scales, biases);
    }
  }

  // outputs[r] of one panel, for up to kRowBlock rows.
  static void ManyRows(const std::byte* panel, const PanelShape& shape, size_t lanes,
                       PreparedRows x, size_t rows, float* outputs) {
    alignas(64) int32_t dots[kRowBlock * L::kLanes];
    std::memset(outputs, 0, rows * checkpoint::kPanelOutputs * sizeof(float));
    const size_t step_bytes = lanes * 4;
    const size_t steps = shape.group / 8;
    const IntegerRow<kTerms> row(x.data, shape.k);
    for (size_t g = 0; g < shape.groups(); ++g) {
      const std::byte* scales = panel + steps * step_bytes;
      const std::byte* biases = scales + lanes * 2;
      for (size_t lane = 0; lane < lanes; lane += L::kLanes) {
        const RowBlock block{.codes = row.codes + g * kTerms * shape.group,
                             .sums = row.sums + g,
                             .stride = x.stride,
                             .group = shape.group,
                             .rows = rows,
                             .dots = dots,
                             .outputs = outputs + lane};
        Group<L::kHeldSteps>(panel + lane * 4, step_bytes, 0, steps, block, scales + lane * 2,
                             biases + lane * 2);
      }
      panel = biases + lanes * 2;
    }
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
