#include "model/causal_conv.h"

#include <algorithm>
#include <array>

#include "checkpoint/config.h"

namespace slotstream::model {

void CausalConvSilu(Compute& compute, const ConvShape& shape, const float* weight, ConstRows in,
                    size_t rows, std::vector<float>& history, MutableRows out) {
  const size_t kept = shape.history();
  compute.ForRows(rows, [&](size_t t) {
    std::array<const float*, checkpoint::kMaxConvKernel> taps;
    for (size_t j = 0; j < shape.kernel; ++j) {
      const size_t back = shape.dilation * (shape.kernel - 1 - j);
      taps[j] = back <= t ? in.row(t - back) : history.data() + (kept + t - back) * shape.width;
    }
    compute.kernels().conv_silu(taps.data(), weight, shape.kernel, shape.width, out.row(t));
  });
  AdvanceHistory(shape, in, rows, history, history);
}

void AdvanceHistory(const ConvShape& shape, ConstRows in, size_t rows,
                    const std::vector<float>& before, std::vector<float>& after) {
  const size_t kept = shape.history();
  const size_t stay = kept > rows ? kept - rows : 0;
  std::copy(before.end() - static_cast<ptrdiff_t>(stay * shape.width), before.end(), after.begin());
  for (size_t i = stay; i < kept; ++i) {
    std::copy_n(in.row(rows - kept + i), shape.width,
                after.begin() + static_cast<ptrdiff_t>(i * shape.width));
  }
}

}  // namespace slotstream::model
