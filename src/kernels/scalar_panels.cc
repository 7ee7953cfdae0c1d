// The definition of the products with panels: what panel_kernels.h says, in plain C++.
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/kernel_tables.h"
#include "kernels/prepared_rows.h"
#include "kernels/scalar_pieces.h"

namespace slotstream::kernels {
namespace {

// The weights of one output in one group.
struct OutputGroup {
  const std::byte* words;
  size_t stride;  // bytes from one step's word to the next's
  float scale, offset;

  int32_t value(size_t k) const { return Nibble(LoadWord(words + k / 8 * stride), k % 8); }
};

// y[r][o] = total with total = fma(scale, dot, fma(offset, sum, total)) group by group;
// parts(r, g, weights) gives {dot, sum}.
template <typename Parts>
void ForEachOutput(const std::byte* panels, const PanelShape& shape, uint32_t first, uint32_t last,
                   size_t rows, MutableRows y, const Parts& parts) {
  for (uint32_t p = first; p < last; ++p) {
    const size_t lanes = shape.lanes(p);
    const size_t group_bytes = lanes * shape.lane_group_bytes();
    const size_t output = size_t{p} * checkpoint::kPanelOutputs;
    for (size_t lane = 0; lane < lanes && output + lane < shape.n; ++lane) {
      for (size_t r = 0; r < rows; ++r) {
        const std::byte* words = panels + shape.panel_offset(p);
        float total = 0;
        for (size_t g = 0; g < shape.groups(); ++g, words += group_bytes) {
          const std::byte* scales = words + shape.group / 8 * lanes * 4;
          const float scale = LoadBf16(scales + lane * 2);
          const float bias = LoadBf16(scales + lanes * 2 + lane * 2);
          const float offset = std::fma(kNibbleCentre, scale, bias);
          const auto [dot, sum] =
              parts(r, g, OutputGroup{words + lane * 4, lanes * 4, scale, offset});
          total = std::fma(scale, dot, std::fma(offset, sum, total));
        }
        y.row(r)[output + lane] = total;
      }
    }
  }
}

struct DotAndSum {
  float dot, sum;
};

void PrepareExact(const float* x, size_t k, size_t group, std::byte* out) {
  auto* floats = reinterpret_cast<float*>(out);
  std::memcpy(floats, x, k * sizeof(float));
  for (size_t g = 0; g < k / group; ++g) floats[k + g] = Sum16(x + g * group, group);
}

void ExactProduct(const std::byte* panels, const PanelShape& shape, uint32_t first, uint32_t last,
                  PreparedRows x, size_t rows, MutableRows y) {
  ForEachOutput(panels, shape, first, last, rows, y,
                [&](size_t r, size_t g, const OutputGroup& weights) {
                  const ExactRow row(x.row(r), shape.k);
                  float dot = 0;
                  for (size_t k = 0; k < shape.group; ++k) {
                    const float q = static_cast<float>(weights.value(k)) - kNibbleCentre;
                    dot = std::fma(q, row.x[g * shape.group + k], dot);
                  }
                  return DotAndSum{dot, row.sums[g]};
                });
}

// Where input k of a group lies in a term of its codes.
size_t PlaceOf(size_t k) { return k / 8 * 8 + k % 2 * 4 + k % 8 / 2; }

template <size_t kTerms>
void PrepareInteger(const float* x, size_t k, size_t group, std::byte* out) {
  constexpr int32_t kLargest = LargestCode(kTerms);
  auto* sums = reinterpret_cast<GroupSum*>(out + kTerms * k);
  for (size_t g = 0; g < k / group; ++g) {
    const float* xg = x + g * group;
    std::byte* codes = out + g * kTerms * group;
    // As integers, magnitudes are ordered like the floats, with NaNs above infinity.
    uint32_t bits = 0;
    for (size_t i = 0; i < group; ++i) {
      bits = std::max(bits, std::bit_cast<uint32_t>(xg[i]) & 0x7fffffffu);
    }
    const float m = std::bit_cast<float>(bits);
    const bool finite = bits < 0x7f800000u;
    const bool zero = !finite || m < kSmallestMagnitude;
    const float to_code = zero ? 0.0f : static_cast<float>(kLargest) / m;
    const float unit = !finite ? std::bit_cast<float>(0x7fc00000u)
                       : zero  ? 0.0f
                               : m / static_cast<float>(kLargest);
    int32_t sum = 0;
    for (size_t i = 0; i < group; ++i) {
      const int32_t v = zero ? 0 : static_cast<int32_t>(std::nearbyint(xg[i] * to_code));
      sum += v;
      if constexpr (kTerms == 1) {
        codes[PlaceOf(i)] = static_cast<std::byte>(v);
      } else {
        codes[PlaceOf(i)] = static_cast<std::byte>((v + 128) >> 8);
        codes[group + PlaceOf(i)] = static_cast<std::byte>(v);
      }
    }
    sums[g] = {unit, unit * static_cast<float>(sum), -8 * sum};
  }
}

template <size_t kTerms>
void IntegerProduct(const std::byte* panels, const PanelShape& shape, uint32_t first, uint32_t last,
                    PreparedRows x, size_t rows, MutableRows y) {
  ForEachOutput(
      panels, shape, first, last, rows, y, [&](size_t r, size_t g, const OutputGroup& weights) {
        const IntegerRow<kTerms> row(x.row(r), shape.k);
        const auto* codes = reinterpret_cast<const int8_t*>(row.codes + g * kTerms * shape.group);
        int32_t dot = row.sums[g].centre;
        for (size_t k = 0; k < shape.group; ++k) {
          int32_t v = codes[PlaceOf(k)];
          if constexpr (kTerms == 2) v = 256 * v + codes[shape.group + PlaceOf(k)];
          dot += weights.value(k) * v;
        }
        return DotAndSum{row.sums[g].unit * static_cast<float>(dot), row.sums[g].sum};
      });
}

}  // namespace

constinit const PanelKernels kScalarExact = {
    .instructions = "scalar", .tile_rows = 64, .prepare = PrepareExact, .product = ExactProduct};
constinit const PanelKernels kScalarInt8 = {.instructions = "scalar",
                                            .tile_rows = 64,
                                            .prepare = PrepareInteger<1>,
                                            .product = IntegerProduct<1>};
constinit const PanelKernels kScalarInt15 = {.instructions = "scalar",
                                             .tile_rows = 64,
                                             .prepare = PrepareInteger<2>,
                                             .product = IntegerProduct<2>};

}  // namespace slotstream::kernels
