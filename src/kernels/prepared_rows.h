// How prepared rows lie in memory; only the panel kernels know.
//
//   exact   f32 x [k], then f32 sums [groups]
//   int8, int15
//           per group its codes, one term after the other: int8 has one, int15 has high and low
//           with v = 256 high + low. A term holds `group` signed bytes in steps of eight inputs:
//           the inputs 0, 2, 4, 6 of the step, then 1, 3, 5, 7. So four bytes meet the low nibbles
//           of a panel's word, the next four its high nibbles, and 64 bytes are a row of a matrix
//           tile. Then one GroupSum per group.
//           int15 for AVX2 and AVX-VNNI has whole codes instead, of 16 bits, in steps of eight
//           inputs: 0, 4, 1, 5, 2, 6, 3, 7. One mask leaves the nibbles of a word that far apart,
//           in 16 bits each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/panel_kernels.h"

namespace slotstream::kernels {

struct GroupSum {
  float unit;      // x is about unit * v
  float sum;       // unit * float(sum of v)
  int32_t centre;  // -8 * sum of v: what dot products of whole nibbles start from
};

constexpr size_t TermsOf(ComputeMode mode) { return mode == ComputeMode::kInt8 ? 1 : 2; }
constexpr int32_t LargestCode(size_t terms) { return terms == 1 ? 127 : 16383; }
// Below this a group counts as zero: Q / m stays finite.
inline constexpr float kSmallestMagnitude = 0x1p-100f;

struct ExactRow {
  const float* x;
  const float* sums;
  ExactRow(const std::byte* row, size_t k) : x(reinterpret_cast<const float*>(row)), sums(x + k) {}
};

template <size_t kTerms>
struct IntegerRow {
  const std::byte* codes;
  const GroupSum* sums;
  IntegerRow(const std::byte* row, size_t k)
      : codes(row), sums(reinterpret_cast<const GroupSum*>(row + kTerms * k)) {}
};

}  // namespace slotstream::kernels
