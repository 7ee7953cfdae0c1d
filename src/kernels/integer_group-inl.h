// What the integer products with panels share: the lanes L of an instruction set, and how a group
// of a panel joins the outputs.
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

// How far ahead of one row's words a panel is prefetched, whole steps at a time so that lines are
// asked for strictly forward. Measured on Zen 3 from memory, beside 1,024 bytes: 2,048 are 0.9 to
// 0.95 times as fast in int8 and the same in int15, none at all 0.7 to 0.8 times. On a Xeon 1,024
// and 2,048 are the same.
inline constexpr size_t kIntegerPrefetchBytes = 1024;

// Asks for the kBytes from `from` on; they need not exist.
template <size_t kBytes>
SS_INLINE void PrefetchLines(const std::byte* from) {
#pragma GCC unroll 4
  for (size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(from + i);
}

template <class L>
struct IntegerGroup {
  using Ints = typename L::Ints;
  using Floats = typename L::Floats;

  // Scales and offsets of one vector of outputs in one group.
  struct Weights {
    Floats scale, offset;
    SS_INLINE Weights(Floats s, Floats o) : scale(s), offset(o) {}
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

  // Asks for what a many-row product will read kIntegerPrefetchBytes further on.
  template <size_t kBytes>
  static SS_INLINE void Prefetch(const std::byte* words) {
    PrefetchLines<kBytes>(words + kIntegerPrefetchBytes);
  }
};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
