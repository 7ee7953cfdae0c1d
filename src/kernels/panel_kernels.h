// Products of rows with 4-bit panels, in three compute modes.
//
// A row of activations is prepared once for all the panels that it meets: its sums, and in the
// integer modes its codes. Every mode is defined down to the order of its operations, so that a
// row's bits are the same on all instruction sets and in any company (promise P1).
//
// Per output and row, with y = 0 at the start, group by group:
//
//   y = fma(scale, dot, fma(offset, sum, y)),   offset = fma(8, scale, bias)
//
// for weights scale * q + bias. Values less 8 keep the two terms small, so that less is lost where
// they cancel (docs/NUMERICS.md).
//
//   exact   sum = Sum16 of the group's x; dot = 0, then dot = fma(q_k - 8, x_k, dot) for k rising.
//   int8, int15
//           The group's x become integers v of at most Q, 127 or 16,383: with m = max |x|,
//           v_k = x_k * (Q / m) rounded to the nearest, ties to even, and unit = m / Q. Then
//           sum = unit * float(sum of v_k) and dot = unit * float(sum of (q_k - 8) v_k), whose
//           integer sums are exact whatever their order. (In float32 too, for groups of up to 128.)
//           A group with m below 2^-100 is all zeros; one with an infinity or a NaN has v = 0 and
//           unit = NaN, so that every output that it touches is a NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "checkpoint/panel.h"
#include "kernels/rows.h"

namespace slotstream::kernels {

using checkpoint::PanelShape;

// Subtracted from 4-bit values: the middle of their range.
inline constexpr float kNibbleCentre = 8.0f;

enum class ComputeMode { kExact, kInt8, kInt15 };

inline constexpr ComputeMode kComputeModes[] = {ComputeMode::kExact, ComputeMode::kInt8,
                                                ComputeMode::kInt15};

// What is used unless the user says otherwise; docs/NUMERICS.md says why.
inline constexpr ComputeMode kDefaultComputeMode = ComputeMode::kInt15;

// "exact", "int8", "int15".
std::string_view NameOf(ComputeMode mode);
// kInvalidArgument lists the names there are.
Result<ComputeMode> ParseComputeMode(std::string_view name);

// Bytes of one prepared row of k inputs; a multiple of a cache line.
size_t PreparedBytes(ComputeMode mode, size_t k, size_t group);

// Prepared rows: row r starts at data + r * stride, aligned to a cache line.
struct PreparedRows {
  const std::byte* data;
  size_t stride;
  const std::byte* row(size_t r) const { return data + r * stride; }
};

// What one task of a parallel product has: so many panels by so many rows.
struct PanelTask {
  uint32_t panels = 1;
  uint32_t rows = 1;
};

// One mode's functions. Pure; weights need no alignment.
struct PanelKernels {
  std::string_view instructions;  // what the products are made of, for people
  uint32_t tile_rows;             // rows that one call works best with, if there are many
  uint32_t panels_at_once = 1;    // panels that one call works best with for one row
  bool whole_codes = false;       // of the two ways to lay out int15's (prepared_rows.h)

  // Prepares x[0, k) in PreparedBytes(mode, k, group) bytes at `out`.
  void (*prepare)(const float* x, size_t k, size_t group, std::byte* out);

  // y[r][o] for the outputs o < shape.n of panels [first, last), all rows r < rows.
  void (*product)(const std::byte* panels, const PanelShape& shape, uint32_t first, uint32_t last,
                  PreparedRows x, size_t rows, MutableRows y);

  // How a product of `rows` rows with `panels` panels in all is best cut up for `threads` threads.
  PanelTask TaskFor(size_t panels, size_t rows, int threads) const;
};

}  // namespace slotstream::kernels
