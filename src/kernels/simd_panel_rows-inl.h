// The product of many rows with 4-bit panels: a group of outputs becomes floats once, in a buffer
// of the first-level cache, and blocks of rows pass by.
#pragma once

#include <array>
#include <utility>

#include "kernels/simd_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

// Vectors of outputs in the buffer, and rows per block: 12 accumulators of 16 registers, 24 of 32.
inline constexpr size_t kBufferVectors = kLanes == 4 ? 4 : 2;
inline constexpr size_t kBlockRows = kLanes == 16 ? 12 : 6;
// Inputs that the buffer holds; longer groups pass in pieces.
inline constexpr size_t kBufferInputs = 64;
// Rows of a tile: their inputs (480 KiB at k = 2560) stay in the second-level cache while panels
// stream by, their running outputs of a panel and inputs of a group in the first-level one.
inline constexpr size_t kTileRows = 48;

// buffer[k][output] = value - 8 of `inputs` inputs, for kVectors vectors of outputs from `words`
// on.
template <size_t kVectors>
inline void FillBuffer(const std::byte* words, size_t step_bytes, size_t inputs, float* buffer) {
  for (size_t k = 0; k < inputs; k += 8, words += step_bytes) {
    HWY_UNROLL(4)
    for (size_t v = 0; v < kVectors; ++v) {
      PrefetchWords<kLanes * 4>(words + v * kLanes * 4);
      const VU held = LoadPanelWords(words + v * kLanes * 4);
      constexpr size_t kNext = kVectors * kLanes;
      float* to = buffer + k * kNext + v * kLanes;
      hn::Store(CentredNibble<0>(held), DF(), to);
      hn::Store(CentredNibble<1>(held), DF(), to + kNext);
      hn::Store(CentredNibble<2>(held), DF(), to + 2 * kNext);
      hn::Store(CentredNibble<3>(held), DF(), to + 3 * kNext);
      hn::Store(CentredNibble<4>(held), DF(), to + 4 * kNext);
      hn::Store(CentredNibble<5>(held), DF(), to + 5 * kNext);
      hn::Store(CentredNibble<6>(held), DF(), to + 6 * kNext);
      hn::Store(CentredNibble<7>(held), DF(), to + 7 * kNext);
    }
  }
}

// What the blocks of a tile share in one group: kVectors vectors of outputs.
struct BufferGroup {
  const std::byte* words;
  const std::byte* scales;
  const std::byte* biases;
  size_t step_bytes;
  size_t group;
  float* buffer;
  bool filled;  // with the whole group
};

// acc[r] += the buffer's products with `inputs` inputs of kRows rows.
template <size_t kRows, size_t kVectors>
HWY_INLINE void MulAddBuffer(const float* buffer, size_t inputs, const float* const* x,
                             VF (&acc)[kRows][kVectors]) {
  for (size_t k = 0; k < inputs; ++k) {
    VF q[kVectors];
    HWY_UNROLL(4)
    for (size_t v = 0; v < kVectors; ++v) {
      q[v] = hn::Load(DF(), buffer + (k * kVectors + v) * kLanes);
    }
    HWY_UNROLL(12)
    for (size_t r = 0; r < kRows; ++r) {
      const VF xk = SetF(x[r][k]);
      HWY_UNROLL(4)
      for (size_t v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(q[v], xk, acc[r][v]);
    }
  }
}

// One group of kRows rows; x, sums and y at the first row's.
template <size_t kRows, size_t kVectors>
HWY_NOINLINE void BufferRows(const BufferGroup& shared, const float* x, const float* sums,
                             size_t stride, float* y) {
  VF acc[kRows][kVectors];
  const float* rows[kRows];
  HWY_UNROLL(12)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (size_t v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(DF());
    rows[r] = x + r * stride;
  }
  if (shared.filled) {
    MulAddBuffer(shared.buffer, shared.group, rows, acc);
  } else {
    for (size_t k = 0; k < shared.group; k += kBufferInputs) {
      const size_t inputs = HWY_MIN(kBufferInputs, shared.group - k);
      FillBuffer<kVectors>(shared.words + k / 8 * shared.step_bytes, shared.step_bytes, inputs,
                           shared.buffer);
      MulAddBuffer(shared.buffer, inputs, rows, acc);
      HWY_UNROLL(12)
      for (size_t r = 0; r < kRows; ++r) rows[r] += inputs;
    }
  }
  HWY_UNROLL(4)
  for (size_t v = 0; v < kVectors; ++v) {
    const VF scale = LoadBf16(shared.scales + v * kLanes * 2);
    const VF bias = LoadBf16(shared.biases + v * kLanes * 2);
    const VF offset = hn::MulAdd(hn::Set(DF(), kNibbleCentre), scale, bias);
    HWY_UNROLL(12)
    for (size_t r = 0; r < kRows; ++r) {
      float* out = y + r * kPanelOutputs + v * kLanes;
      const VF with_offset = hn::MulAdd(offset, SetF(sums[r * stride]), hn::Load(DF(), out));
      hn::Store(hn::MulAdd(scale, acc[r][v], with_offset), DF(), out);
    }
  }
}

using BufferRowsFunction = void (*)(const BufferGroup&, const float*, const float*, size_t, float*);
template <size_t kVectors, size_t... kCounts>
constexpr auto MakeBufferRows(std::index_sequence<kCounts...>) {
  return std::array<BufferRowsFunction, sizeof...(kCounts)>{BufferRows<kCounts + 1, kVectors>...};
}

// kVectors vectors of outputs of one group, for all rows of a tile.
template <size_t kVectors>
void BufferTile(const BufferGroup& shared, ConstRows x, ConstRows sums, size_t rows, float* y) {
  static constexpr auto kRows = MakeBufferRows<kVectors>(std::make_index_sequence<kBlockRows>());
  if (shared.filled) {
    FillBuffer<kVectors>(shared.words, shared.step_bytes, shared.group, shared.buffer);
  }
  const size_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  for (size_t b = 0; b < blocks; ++b) {
    // Blocks of nearly equal size: 4 and 3 rows cost less than 6 and 1.
    const size_t begin = rows * b / blocks;
    const size_t end = rows * (b + 1) / blocks;
    kRows[end - begin - 1](shared, x.row(begin), sums.row(begin), x.stride,
                           y + begin * kPanelOutputs);
  }
}

// Panel p for up to kTileRows rows, whose x and sums have one stride.
inline void PanelTile(const std::byte* panels, const PanelShape& shape, uint32_t p, ConstRows x,
                      ConstRows sums, size_t rows, MutableRows y) {
  HWY_ALIGN float outputs[kTileRows * kPanelOutputs];
  HWY_ALIGN float buffer[kBufferInputs * kBufferVectors * kLanes];
  std::memset(outputs, 0, rows * kPanelOutputs * sizeof(float));
  const std::byte* panel = panels + shape.panel_offset(p);
  const size_t lanes = shape.lanes(p);
  const size_t step_bytes = lanes * 4;
  for (size_t g = 0; g < shape.groups(); ++g) {
    const std::byte* scales = panel + step_bytes * (shape.group / 8);
    const std::byte* biases = scales + lanes * 2;
    for (size_t lane = 0; lane < lanes;) {
      const BufferGroup shared{.words = panel + lane * 4,
                               .scales = scales + lane * 2,
                               .biases = biases + lane * 2,
                               .step_bytes = step_bytes,
                               .group = shape.group,
                               .buffer = buffer,
                               .filled = shape.group <= kBufferInputs};
      const ConstRows xg{x.data + g * shape.group, x.stride};
      const ConstRows sums_g{sums.data + g, sums.stride};
      if (lanes - lane >= kBufferVectors * kLanes) {
        BufferTile<kBufferVectors>(shared, xg, sums_g, rows, outputs + lane);
        lane += kBufferVectors * kLanes;
      } else {
        BufferTile<kBlockVectors>(shared, xg, sums_g, rows, outputs + lane);
        lane += kBlockVectors * kLanes;
      }
    }
    panel = biases + lanes * 2;
  }
  for (size_t r = 0; r < rows; ++r) {
    StorePanelOutputs(shape, p, outputs + r * kPanelOutputs, y.row(r));
  }
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
