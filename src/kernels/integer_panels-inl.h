// The integer modes' functions over a set of lanes: see panel_kernels.h, and integer_group-inl.h
// for what lanes are.
#pragma once

#include "kernels/integer_many_rows-inl.h"
#include "kernels/integer_one_row-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

template <class L, size_t kTerms>
struct IntegerPanels {
  static void Product(const std::byte* panels, const PanelShape& shape, uint32_t first,
                      uint32_t last, PreparedRows x, size_t rows, MutableRows y) {
    alignas(64) float outputs[kRowBlock * checkpoint::kPanelOutputs];
    for (size_t begin = 0; begin < rows; begin += kRowBlock) {
      const size_t count = rows - begin < kRowBlock ? rows - begin : kRowBlock;
      for (uint32_t p = first; p < last; ++p) {
        const std::byte* panel = panels + shape.panel_offset(p);
        const size_t lanes = shape.lanes(p);
        if (count > 1) {
          IntegerManyRows<L, kTerms>::ManyRows(panel, shape, lanes, {x.row(begin), x.stride}, count,
                                               outputs);
        } else if (lanes == checkpoint::kPanelOutputs) {
          IntegerOneRow<L, kTerms>::template OneRow<L::template kWide<kTerms>>(
              panel, shape, lanes, x.row(begin), outputs);
        } else {
          IntegerOneRow<L, kTerms>::template OneRow<checkpoint::kLaneStep / L::kLanes>(
              panel, shape, lanes, x.row(begin), outputs);
        }
        StoreOutputs(shape, p, outputs, count, {y.row(begin), y.stride});
      }
    }
  }

  // Copies what exists of panel p's outputs [rows][kPanelOutputs] to y.
  static void StoreOutputs(const PanelShape& shape, uint32_t p, const float* outputs, size_t rows,
                           MutableRows y) {
    const size_t output = size_t{p} * checkpoint::kPanelOutputs;
    const size_t lanes = shape.lanes(p);
    const size_t width = shape.n - output < lanes ? shape.n - output : lanes;
    for (size_t r = 0; r < rows; ++r) {
      std::memcpy(y.row(r) + output, outputs + r * checkpoint::kPanelOutputs,
                  width * sizeof(float));
    }
  }

  static void Prepare(const float* x, size_t k, size_t group, std::byte* out) {
    constexpr int32_t kLargest = LargestCode(kTerms);
    auto* sums = reinterpret_cast<GroupSum*>(out + kTerms * k);
    for (size_t g = 0; g < k / group; ++g, x += group, out += kTerms * group) {
      const uint32_t bits = L::MagnitudeBits(x, group);
      const float m = std::bit_cast<float>(bits);
      if (bits >= 0x7f800000u || m < kSmallestMagnitude) {
        const bool finite = bits < 0x7f800000u;
        std::memset(out, 0, kTerms * group);
        const float unit = finite ? 0.0f : std::bit_cast<float>(0x7fc00000u);
        sums[g] = {unit, unit, 0};
        continue;
      }
      const float unit = m / static_cast<float>(kLargest);
      const int32_t sum =
          L::template Encode<kTerms>(x, group, static_cast<float>(kLargest) / m, out);
      sums[g] = {unit, unit * static_cast<float>(sum), -8 * sum};
    }
  }
};

template <class L, size_t kTerms>
constexpr PanelKernels MakeIntegerPanels(std::string_view instructions) {
  return {.instructions = instructions,
          .tile_rows = kRowBlock,
          .prepare = IntegerPanels<L, kTerms>::Prepare,
          .product = IntegerPanels<L, kTerms>::Product};
}

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
