// The integer product of many rows for AVX2: the nibbles of a group of a panel are unpacked once
// for a tile of rows, in the first-level cache, and blocks of rows pass by.
//
// P is one mode's arithmetic on vectors of eight outputs:
//   kTerms         bytes of a code
//   kWords         32-bit words of codes in a step of eight inputs, each with a vector of nibbles
//   kSteps         steps that a sum holds before it must be widened, SIZE_MAX: never
//   Nibbles(words, i)             the nibbles that meet word i of a step
//   MultiplyAdd(sum, nibbles, codes)
//   Widen(sum)                    32-bit integers
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/avx2_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

template <class P>
struct Avx2Tile {
  using L = Avx2Vectors;
  using Group = IntegerGroup<L>;
  using Ints = L::Ints;

  static constexpr size_t kPanelOutputs = checkpoint::kPanelOutputs;
  // Two vectors of outputs, which divide every panel, by five rows: ten sums, and registers for
  // the nibbles, codes and products. With six rows GCC keeps sums in memory.
  static constexpr size_t kVectors = checkpoint::kLaneStep / L::kLanes;
  static constexpr size_t kBlockRows = 5;
  // Longer groups are unpacked in pieces, for each block anew.
  static constexpr size_t kMostInputs = 64;

  // What the blocks of a tile share in one group of a panel.
  struct Shared {
    const std::byte* words;
    size_t lanes;
    size_t group;
    bool unpacked;  // `nibbles` hold the whole group
    // [outputs / kLaneStep][step][kWords][kVectors], and the weights' scales and offsets.
    alignas(64) Ints nibbles[kPanelOutputs / L::kLanes * kMostInputs / 8 * P::kWords];
    alignas(64) float scales[kPanelOutputs];
    alignas(64) float offsets[kPanelOutputs];

    Ints* NibblesOf(size_t lane) { return nibbles + lane / L::kLanes * group / 8 * P::kWords; }
  };

  // The nibbles of kVectors vectors of outputs, whose words begin at `words`.
  static void Unpack(const std::byte* words, size_t step_bytes, size_t inputs, Ints* nibbles) {
    for (size_t k = 0; k < inputs; k += 8, words += step_bytes, nibbles += P::kWords * kVectors) {
      Group::Prefetch<kVectors * L::kLanes * 4>(words);
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        const L::Bytes held = L::LoadWords(words + v * L::kLanes * 4);
#pragma GCC unroll 4
        for (size_t word = 0; word < P::kWords; ++word) {
          nibbles[word * kVectors + v] = P::Nibbles(held, word);
        }
      }
    }
  }

  // Begins a group, whose scales and biases follow its words.
  static void Begin(Shared& shared) {
    const std::byte* scales = shared.words + shared.lanes * shared.group / 2;
    const std::byte* biases = scales + shared.lanes * 2;
    for (size_t lane = 0; lane < shared.lanes; lane += L::kLanes) {
      const Group::Weights weights(scales + lane * 2, biases + lane * 2);
      L::StoreFloats(weights.scale, shared.scales + lane);
      L::StoreFloats(weights.offset, shared.offsets + lane);
    }
    if (!shared.unpacked) return;
    for (size_t lane = 0; lane < shared.lanes; lane += checkpoint::kLaneStep) {
      Unpack(shared.words + lane * 4, shared.lanes * 4, shared.group, shared.NibblesOf(lane));
    }
  }

  // sums += the products of `steps` steps.
  template <size_t kCount>
  static SS_INLINE void AddSteps(const Ints* nibbles, size_t steps, const std::byte* const* codes,
                                 Ints (&sums)[kCount][kVectors]) {
    for (size_t at = 0; at < steps * P::kWords * 4; at += P::kWords * 4) {
#pragma GCC unroll 4
      for (size_t word = 0; word < P::kWords; ++word, nibbles += kVectors) {
#pragma GCC unroll 8
        for (size_t r = 0; r < kCount; ++r) {
          const Ints inputs = L::Inputs(codes[r] + at + word * 4);
#pragma GCC unroll 2
          for (size_t v = 0; v < kVectors; ++v) {
            sums[r][v] = P::MultiplyAdd(sums[r][v], nibbles[v], inputs);
          }
        }
      }
    }
  }

  // dots += the products of `inputs` inputs; moves the codes on.
  template <size_t kCount>
  static SS_INLINE void AddProducts(const Ints* nibbles, size_t inputs, const std::byte** codes,
                                    Ints (&dots)[kCount][kVectors]) {
    if constexpr (P::kSteps == SIZE_MAX) {
      AddSteps(nibbles, inputs / 8, codes, dots);
#pragma GCC unroll 8
      for (size_t r = 0; r < kCount; ++r) codes[r] += inputs / 8 * P::kWords * 4;
      return;
    }
    for (size_t left = inputs / 8; left > 0;) {
      const size_t steps = std::min(left, P::kSteps);
      Ints sums[kCount][kVectors];
#pragma GCC unroll 8
      for (size_t r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) sums[r][v] = L::SetInt(0);
      }
      AddSteps(nibbles, steps, codes, sums);
#pragma GCC unroll 8
      for (size_t r = 0; r < kCount; ++r) {
        codes[r] += steps * P::kWords * 4;
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          dots[r][v] = L::Add(dots[r][v], P::Widen(sums[r][v]));
        }
      }
      nibbles += steps * P::kWords * kVectors;
      left -= steps;
    }
  }

  // One group of kCount rows; all pointers at the first row's.
  template <size_t kCount>
  static __attribute__((noinline)) void Block(Shared& shared, const std::byte* codes,
                                              const GroupSum* sums, size_t stride, float* outputs) {
    const auto sum_of = [&](size_t r) -> const GroupSum& {
      return *reinterpret_cast<const GroupSum*>(reinterpret_cast<const std::byte*>(sums) +
                                                r * stride);
    };
    for (size_t lane = 0; lane < shared.lanes; lane += checkpoint::kLaneStep) {
      const std::byte* rows[kCount];
      Ints dots[kCount][kVectors];
#pragma GCC unroll 8
      for (size_t r = 0; r < kCount; ++r) {
        rows[r] = codes + r * stride;
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) dots[r][v] = L::SetInt(sum_of(r).centre);
      }
      if (shared.unpacked) {
        AddProducts(shared.NibblesOf(lane), shared.group, rows, dots);
      } else {
        for (size_t k = 0; k < shared.group; k += kMostInputs) {
          const size_t inputs = std::min(kMostInputs, shared.group - k);
          Unpack(shared.words + (k / 8 * shared.lanes + lane) * 4, shared.lanes * 4, inputs,
                 shared.nibbles);
          AddProducts(shared.nibbles, inputs, rows, dots);
        }
      }
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        const size_t output = lane + v * L::kLanes;
        const Group::Weights weights{L::LoadFloats(shared.scales + output),
                                     L::LoadFloats(shared.offsets + output)};
#pragma GCC unroll 8
        for (size_t r = 0; r < kCount; ++r) {
          Group::Combine(dots[r][v], sum_of(r), weights, outputs + r * kPanelOutputs + output);
        }
      }
    }
  }

  using BlockFunction = void (*)(Shared&, const std::byte*, const GroupSum*, size_t, float*);
  template <size_t... kCounts>
  static constexpr auto MakeBlocks(std::index_sequence<kCounts...>) {
    return std::array<BlockFunction, sizeof...(kCounts)>{Block<kCounts + 1>...};
  }

  // outputs[r] of one panel, for all rows of a tile.
  static void Panel(const std::byte* panel, const PanelShape& shape, size_t lanes, PreparedRows x,
                    size_t rows, float* outputs) {
    static constexpr auto kBlocks = MakeBlocks(std::make_index_sequence<kBlockRows>());
    Shared shared;
    shared.lanes = lanes;
    shared.group = shape.group;
    shared.unpacked = shape.group <= kMostInputs;
    std::memset(outputs, 0, rows * kPanelOutputs * sizeof(float));
    const size_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    const size_t group_bytes = lanes * shape.group / 2 + lanes * 4;
    for (size_t g = 0; g < shape.groups(); ++g, panel += group_bytes) {
      shared.words = panel;
      Begin(shared);
      for (size_t b = 0; b < blocks; ++b) {
        // Blocks of nearly equal size: 3 and 3 rows cost less than 5 and 1.
        const size_t begin = rows * b / blocks;
        const size_t end = rows * (b + 1) / blocks;
        const IntegerRow<P::kTerms> row(x.row(begin), shape.k);
        kBlocks[end - begin - 1](shared, row.codes + P::kTerms * g * shape.group, row.sums + g,
                                 x.stride, outputs + begin * kPanelOutputs);
      }
    }
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
