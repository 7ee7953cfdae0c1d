// The exact mode's functions: see panel_kernels.h.
#pragma once

#include "kernels/prepared_rows.h"
#include "kernels/simd_panel-inl.h"
#include "kernels/simd_panel_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slotstream::kernels::HWY_NAMESPACE {

// From here on the buffer pays.
inline constexpr size_t kFewestBufferRows = 8;

inline void PrepareExact(const float* x, size_t k, size_t group, std::byte* out) {
  auto* floats = reinterpret_cast<float*>(out);
  std::memcpy(floats, x, k * sizeof(float));
  for (size_t g = 0; g < k / group; ++g) floats[k + g] = Sum16(x + g * group, group);
}

inline void ExactProduct(const std::byte* panels, const PanelShape& shape, uint32_t first,
                         uint32_t last, PreparedRows prepared, size_t rows, MutableRows y) {
  const size_t stride = prepared.stride / sizeof(float);
  const ExactRow first_row(prepared.data, shape.k);
  for (size_t begin = 0; begin < rows; begin += kTileRows) {
    const size_t count = HWY_MIN(kTileRows, rows - begin);
    const ConstRows x{first_row.x + begin * stride, stride};
    const ConstRows sums{first_row.sums + begin * stride, stride};
    const MutableRows out{y.row(begin), y.stride};
    for (uint32_t p = first; p < last; ++p) {
      if (count < kFewestBufferRows) {
        PanelFewRows(panels, shape, p, x, sums, count, out);
      } else {
        PanelTile(panels, shape, p, x, sums, count, out);
      }
    }
  }
}

}  // namespace slotstream::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
