// The panel products of one compute mode.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"

namespace slotstream::bench {

// Names of all compute modes.
inline std::vector<std::string> AllModes() { return {"exact"}; }
struct PreparedRows {
  const std::byte* data;
  size_t stride;
  const std::byte* row(size_t r) const { return data + r * stride; }
};

struct ModeKernels {
  const kernels::KernelTable* table;
  std::string_view instructions;
  size_t prepared_bytes(size_t k, size_t group) const {
    return AlignUp((k + k / group) * sizeof(float), 64);
  }
  void prepare(const float* x, size_t k, size_t group, std::byte* out) const {
    auto* row = reinterpret_cast<float*>(out);
    std::copy_n(x, k, row);
    table->group_sums(x, k, group, row + k);
  }
  void product(const std::byte* panels, const checkpoint::PanelShape& shape, uint32_t first,
               uint32_t last, PreparedRows x, size_t rows, kernels::MutableRows y) const {
    const auto* row = reinterpret_cast<const float*>(x.data);
    const size_t stride = x.stride / sizeof(float);
    table->panel_product(panels, shape, first, last, {row, stride}, {row + shape.k, stride}, rows,
                         y);
  }
};

// `mode` is one of AllModes().
inline ModeKernels KernelsOf(const kernels::KernelTable& table, std::string_view) {
  return {&table, table.name};
}

}  // namespace slotstream::bench
