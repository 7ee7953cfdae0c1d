// The integer products with panels, over a set of lanes L.
//
// The files that define L for an instruction set name its extensions in SS_INTEGER_TARGET before
// they include this. L offers, besides vectors of float32 and the loads and sums that its names
// say:
//   kLanes         outputs per vector
//   kHeldSteps     steps of eight inputs whose nibbles fit into registers, two vectors a step
//   kRowsAtOnce    rows that share held nibbles at a time, a power of two: enough independent sums
//                  to hide the latency of one
//   kWide<terms>   vectors of outputs at a time when there is one row
//   Partial        a sum in progress of up to kPartialSteps steps: Begin(), Dot(partial, nibbles,
//                  inputs), and End<shift>(partial, ints) = ints + (sum << shift)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/base.h>
#include "kernels/kernel_tables.h"
#include "kernels/prepared_rows.h"

#define SS_INLINE inline __attribute__((always_inline))

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

// Rows whose running outputs of a panel (16 KB) stay in the first-level cache.
inline constexpr size_t kRowBlock = 64;
// How far ahead of one row's words a panel is prefetched, whole steps at a time so that lines are
// asked for strictly forward. Measured on Zen 3 from memory, as fractions of a plain read: 0.85 at
// 1,536 to 3,072 bytes, 0.65 without, 0.7 when the halves of a step are asked for in turn.
inline constexpr size_t kIntegerPrefetchBytes = 2048;

template <class L, size_t kTerms>
struct IntegerPanels {
  using Ints = typename L::Ints;
  using Floats = typename L::Floats;
  using Bytes = typename L::Bytes;
  using Partial = typename L::Partial;

  // Scales and offsets of one vector of outputs in one group.
  struct Weights {
    Floats scale, offset;
    SS_INLINE Weights(const std::byte* scales, const std::byte* biases) {
      scale = L::LoadBf16(scales);
      offset = L::MulAdd(L::SetFloat(kNibbleCentre), scale, L::LoadBf16(biases));
    }
  };

  // y += the group's share, as panel_kernels.h defines it.
  static SS_INLINE void Combine(Ints dot, const GroupSum& sum, const Weights& weights, float* y) {
    const Floats scaled = L::Mul(L::SetFloat(sum.unit), L::ToFloats(dot));
    const Floats with_offset = L::MulAdd(weights.offset, L::SetFloat(sum.sum), L::LoadFloats(y));
    L::StoreFloats(L::MulAdd(weights.scale, scaled, with_offset), y);
  }

  template <size_t kBytes>
  static SS_INLINE void Prefetch(const std::byte* words) {
    const auto* ahead = reinterpret_cast<const char*>(words) + kIntegerPrefetchBytes;
#pragma GCC unroll 4
    for (size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(ahead + i);
  }

  // --- many rows: nibbles of one vector of outputs are held, rows pass by ------------------------

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
      Prefetch<L::kLanes * 4>(words + s * step_bytes);
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

  // --- one row: a panel streams by, several vectors of outputs at a time -------------------------

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
      const size_t end = k + L::kPartialSteps * 8 < group ? k + L::kPartialSteps * 8 : group;
      Partial high[kVectors];
      Partial low[kVectors];
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) {
        if constexpr (kTerms == 2) high[v] = L::Begin();
        low[v] = L::Begin();
      }
      for (; k < end; k += 8, words += step_bytes) {
        if (ahead) Prefetch<checkpoint::kPanelOutputs * 4>(words);
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

  // ----------------------------------------------------------------------------------------------

  static void Product(const std::byte* panels, const PanelShape& shape, uint32_t first,
                      uint32_t last, PreparedRows x, size_t rows, MutableRows y) {
    alignas(64) float outputs[kRowBlock * checkpoint::kPanelOutputs];
    for (size_t begin = 0; begin < rows; begin += kRowBlock) {
      const size_t count = rows - begin < kRowBlock ? rows - begin : kRowBlock;
      for (uint32_t p = first; p < last; ++p) {
        const std::byte* panel = panels + shape.panel_offset(p);
        const size_t lanes = shape.lanes(p);
        if (count > 1) {
          ManyRows(panel, shape, lanes, {x.row(begin), x.stride}, count, outputs);
        } else if (lanes == checkpoint::kPanelOutputs) {
          OneRow<L::template kWide<kTerms>>(panel, shape, lanes, x.row(begin), outputs);
        } else {
          OneRow<checkpoint::kLaneStep / L::kLanes>(panel, shape, lanes, x.row(begin), outputs);
        }
        StoreOutputs(shape, p, outputs, count, {y.row(begin), y.stride});
      }
    }
  }

  // Copies what exists of panel p's outputs [rows][kPanelOutputs] to y.
  static void StoreOutputs(const PanelShape& shape, uint32_t p, const float* outputs, size_t rows,
                           MutableRows y) {
    const size_t output = size_t{p} * checkpoint::kPanelOutputs;
    const size_t lanes = shape.lanes(p);
    const size_t width = shape.n - output < lanes ? shape.n - output : lanes;
    for (size_t r = 0; r < rows; ++r) {
      std::memcpy(y.row(r) + output, outputs + r * checkpoint::kPanelOutputs,
                  width * sizeof(float));
    }
  }

  static void Prepare(const float* x, size_t k, size_t group, std::byte* out) {
    constexpr int32_t kLargest = LargestCode(kTerms);
    auto* sums = reinterpret_cast<GroupSum*>(out + kTerms * k);
    for (size_t g = 0; g < k / group; ++g, x += group, out += kTerms * group) {
      const uint32_t bits = L::MagnitudeBits(x, group);
      const float m = std::bit_cast<float>(bits);
      if (bits >= 0x7f800000u || m < kSmallestMagnitude) {
        const bool finite = bits < 0x7f800000u;
        std::memset(out, 0, kTerms * group);
        const float unit = finite ? 0.0f : std::bit_cast<float>(0x7fc00000u);
        sums[g] = {unit, unit, 0};
        continue;
      }
      const float unit = m / static_cast<float>(kLargest);
      const int32_t sum =
          L::template Encode<kTerms>(x, group, static_cast<float>(kLargest) / m, out);
      sums[g] = {unit, unit * static_cast<float>(sum), -8 * sum};
    }
  }
};

template <class L, size_t kTerms>
constexpr PanelKernels MakeIntegerPanels(std::string_view instructions) {
  return {instructions, kRowBlock, IntegerPanels<L, kTerms>::Prepare,
          IntegerPanels<L, kTerms>::Product};
}

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
