// The integer products with panels, over a set of lanes L.
//
// The files that define L for an instruction set name its extensions in SS_INTEGER_TARGET before they
// include this. L offers, besides vectors of float32 and the loads and sums that its names say:
//   kLanes         outputs per vector
//   kHeldSteps     steps of eight inputs whose nibbles fit into registers, two vectors a step
//   kRowsAtOnce    rows that share held nibbles at a time, a power of two: enough independent sums
//                  to hide the latency of one
//   kWide<terms>   vectors of outputs at a time when there is one row
//   Partial        sums in progress of up to kPartialSteps steps: Begin<shift>(ints),
//                  Dot(partial, nibbles, inputs), End<shift>(partial, ints) = ints + (sum << shift)
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
// See simd_panel-inl.h.
inline constexpr size_t kIntegerPrefetchBytes = 4096;

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

  // --- many rows: nibbles of one vector of outputs are held, rows pass by ------------------------

  // dots[r] += sum << kShift of kSteps held steps with one term of each row's codes.
  template <int kShift, size_t kSteps, size_t kRows>
  static SS_INLINE void AddTerm(const Bytes (&nibbles)[2 * kSteps], const std::byte* const* codes,
                                Ints (&dots)[kRows]) {
    Partial partial[kRows];
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) partial[r] = L::template Begin<kShift>(dots[r]);
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

  // What the rows of a block share in one group.
  struct RowBlock {
    const std::byte* x;  // the first row
    size_t stride;
    size_t rows;
    size_t k;
    size_t group_index, group;
    int32_t* dots;   // [rows][kLanes], between chunks of a group
    float* outputs;  // [rows][kPanelOutputs], at the vector's first output
  };

  // Rows [r, r + kRows) with held steps from `step` on.
  template <size_t kSteps, size_t kRows>
  static SS_INLINE void Rows(const Bytes (&nibbles)[2 * kSteps], const RowBlock& block, size_t r,
                             size_t step, const Weights& weights) {
    const bool first = step == 0;
    const bool last = (step + kSteps) * 8 == block.group;
    const std::byte* codes[kRows];
    const GroupSum* sums[kRows];
    Ints dots[kRows];
#pragma GCC unroll 8
    for (size_t i = 0; i < kRows; ++i) {
      const IntegerRow<kTerms> row(block.x + (r + i) * block.stride, block.k);
      codes[i] = row.codes + block.group_index * kTerms * block.group + step * 8;
      sums[i] = row.sums + block.group_index;
      dots[i] = first ? L::SetInt(sums[i]->centre) : L::LoadInts(block.dots + (r + i) * L::kLanes);
    }
    if constexpr (kTerms == 2) {
      AddTerm<8, kSteps>(nibbles, codes, dots);
#pragma GCC unroll 8
      for (size_t i = 0; i < kRows; ++i) codes[i] += block.group;
    }
    AddTerm<0, kSteps>(nibbles, codes, dots);
#pragma GCC unroll 8
    for (size_t i = 0; i < kRows; ++i) {
      if (last) {
        Combine(dots[i], *sums[i], weights,
                block.outputs + (r + i) * checkpoint::kPanelOutputs);
      } else {
        L::StoreInts(dots[i], block.dots + (r + i) * L::kLanes);
      }
    }
  }

  template <size_t kSteps, size_t kRows>
  static SS_INLINE void RowsFrom(const Bytes (&nibbles)[2 * kSteps], const RowBlock& block,
                                 size_t r, size_t step, const Weights& weights) {
    for (; r + kRows <= block.rows; r += kRows) {
      Rows<kSteps, kRows>(nibbles, block, r, step, weights);
    }
    if constexpr (kRows > 1) RowsFrom<kSteps, kRows / 2>(nibbles, block, r, step, weights);
  }

  // kSteps steps from `step` on of one vector of outputs, whose first step's words are at `words`.
  template <size_t kSteps>
  static __attribute__((noinline)) void Chunk(const std::byte* words, size_t step_bytes,
                                              size_t step, const RowBlock& block,
                                              const std::byte* scales, const std::byte* biases) {
    Bytes nibbles[2 * kSteps];
#pragma GCC unroll 8
    for (size_t s = 0; s < kSteps; ++s) {
      const Bytes loaded = L::LoadWords(words + (step + s) * step_bytes);
      nibbles[2 * s] = L::Low(loaded);
      nibbles[2 * s + 1] = L::High(loaded);
    }
    RowsFrom<kSteps, L::kRowsAtOnce>(nibbles, block, 0, step, Weights(scales, biases));
  }

  // outputs[r] of panel p, for up to kRowBlock rows.
  static void ManyRows(const std::byte* panel, const PanelShape& shape, size_t lanes,
                       PreparedRows x, size_t rows, float* outputs) {
    alignas(64) int32_t dots[kRowBlock * L::kLanes];
    std::memset(outputs, 0, rows * checkpoint::kPanelOutputs * sizeof(float));
    const size_t step_bytes = lanes * 4;
    const size_t steps = shape.group / 8;
    for (size_t g = 0; g < shape.groups(); ++g) {
      const std::byte* scales = panel + steps * step_bytes;
      const std::byte* biases = scales + lanes * 2;
      for (size_t lane = 0; lane < lanes; lane += L::kLanes) {
        const RowBlock block{x.data, x.stride, rows, shape.k,        g,
                             shape.group, dots, outputs + lane};
        size_t step = 0;
        for (; step + L::kHeldSteps <= steps; step += L::kHeldSteps) {
          Chunk<L::kHeldSteps>(panel + lane * 4, step_bytes, step, block, scales + lane * 2,
                               biases + lane * 2);
        }
        for (; step < steps; ++step) {
          Chunk<1>(panel + lane * 4, step_bytes, step, block, scales + lane * 2,
                   biases + lane * 2);
        }
      }
      panel = biases + lanes * 2;
    }
  }

  // --- one row: a panel streams by, several vectors of outputs at a time -------------------------

  template <size_t kVectors>
  static SS_INLINE void Prefetch(const std::byte* words) {
    const auto* ahead = reinterpret_cast<const char*>(words) + kIntegerPrefetchBytes;
#pragma GCC unroll 4
    for (size_t i = 0; i < kVectors * L::kLanes * 4; i += 64) __builtin_prefetch(ahead + i);
  }

  // One group of kVectors vectors of outputs.
  template <size_t kVectors>
  static SS_INLINE void OneRowGroup(const std::byte* words, size_t step_bytes, size_t group,
                                    const std::byte* codes, const GroupSum& sum,
                                    const std::byte* scales, const std::byte* biases, float* y) {
    Ints dots[kVectors];
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) dots[v] = L::SetInt(sum.centre);
    for (size_t k = 0; k < group;) {
      const size_t end = k + L::kPartialSteps * 8 < group ? k + L::kPartialSteps * 8 : group;
      Partial high[kVectors];
      Partial low[kVectors];
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) {
        if constexpr (kTerms == 2) high[v] = L::template Begin<8>(dots[v]);
        low[v] = L::template Begin<0>(dots[v]);
      }
      for (; k < end; k += 8, words += step_bytes) {
        Prefetch<kVectors>(words);
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
                              row.codes + g * kTerms * shape.group, row.sums[g],
                              scales + lane * 2, biases + lane * 2, outputs + lane);
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
        const size_t output = size_t{p} * checkpoint::kPanelOutputs;
        const size_t width = shape.n - output < lanes ? shape.n - output : lanes;
        for (size_t r = 0; r < count; ++r) {
          std::memcpy(y.row(begin + r) + output, outputs + r * checkpoint::kPanelOutputs,
                      width * sizeof(float));
        }
      }
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
      const int32_t sum = L::template Encode<kTerms>(x, group, static_cast<float>(kLargest) / m, out);
      sums[g] = {unit, unit * static_cast<float>(sum), -8 * sum};
    }
  }
};

template <class L, size_t kTerms>
constexpr PanelKernels MakeIntegerPanels(std::string_view instructions) {
  return {instructions, IntegerPanels<L, kTerms>::Prepare, IntegerPanels<L, kTerms>::Product};
}

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
