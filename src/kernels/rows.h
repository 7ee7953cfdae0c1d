// Rows of float32: row r starts at data + r * stride.
#pragma once

#include <cstddef>

namespace slotstream::kernels {

struct ConstRows {
  const float* data;
  size_t stride;
  const float* row(size_t r) const { return data + r * stride; }
};

struct MutableRows {
  float* data;
  size_t stride;
  float* row(size_t r) const { return data + r * stride; }
  operator ConstRows() const { return {data, stride}; }
};

}  // namespace slotstream::kernels
