// The integer modes' functions in 256 bits, for AVX2 and AVX-VNNI: what the two share of a mode's
// arithmetic, P of avx2_tile-inl.h.
#pragma once

#include <algorithm>

#include "kernels/avx2_one_row-inl.h"
#include "kernels/avx2_tile-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {

// int8: four codes of a byte meet the low nibbles of a panel's word, four the high ones.
struct Avx2Bytes : Avx2Vectors {
  static constexpr size_t kTerms = 1;
  static constexpr size_t kWords = 2;
  static constexpr size_t kTileRows = kRowBlock;

  static SS_INLINE Ints Nibbles(Bytes words, size_t word) {
    return word == 0 ? Low(words) : High(words);
  }
};

// int15: whole codes of 16 bits, in pairs.
struct Avx2Pairs : Avx2Vectors {
  static constexpr size_t kTerms = 2;
  static constexpr size_t kWords = 4;
  static constexpr size_t kSteps = SIZE_MAX;
  // Their codes of a group and outputs of a panel stay in the first-level cache.
  static constexpr size_t kTileRows = 50;
  static constexpr size_t kManyRows = SIZE_MAX;

  // Codes of n values as prepared_rows.h lays them out here; the sum of v.
  template <size_t>
  static SS_INLINE int32_t Encode(const float* x, size_t n, float to_code, std::byte* codes) {
    const __m256 factor = _mm256_set1_ps(to_code);
    Ints sum = SetInt(0);
    for (size_t i = 0; i < n; i += 8) {
      const Ints v = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
      sum = Add(sum, v);
      const __m128i first = _mm256_castsi256_si128(v);
      const __m128i second = _mm_slli_epi32(_mm256_extracti128_si256(v, 1), 16);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + 2 * i),
                       _mm_blend_epi16(first, second, 0xaa));
    }
    return Total(sum);
  }
  static SS_INLINE Ints Nibbles(Bytes words, size_t word) {
    return _mm256_and_si256(_mm256_srli_epi32(words, static_cast<int>(4 * word)),
                            _mm256_set1_epi32(0x000f000f));
  }
  static SS_INLINE Ints Widen(Ints sum) { return sum; }
};

// P has besides:
//   kTileRows      rows of a tile
//   kManyRows      rows from which on IntegerManyRows is faster; SIZE_MAX: never
template <class P>
struct Avx2Panels {
  static void Product(const std::byte* panels, const PanelShape& shape, uint32_t first,
                      uint32_t last, PreparedRows x, size_t rows, MutableRows y) {
    alignas(64) float outputs[P::kTileRows * checkpoint::kPanelOutputs];
    if (rows == 1) {
      for (; first + kPanelsAtOnce <= last && Whole(shape, first + kPanelsAtOnce - 1);
           first += kPanelsAtOnce) {
        Avx2OneRow<P>::template WholePanels<kPanelsAtOnce>(panels + shape.panel_offset(first),
                                                           shape, x.row(0), outputs);
        std::memcpy(y.row(0) + size_t{first} * checkpoint::kPanelOutputs, outputs,
                    kPanelsAtOnce * checkpoint::kPanelOutputs * sizeof(float));
      }
    }
    for (size_t begin = 0; begin < rows; begin += P::kTileRows) {
      const size_t count = std::min(P::kTileRows, rows - begin);
      for (uint32_t p = first; p < last; ++p) {
        Panel(panels + shape.panel_offset(p), shape, shape.lanes(p), {x.row(begin), x.stride},
              count, outputs);
        IntegerPanels<P, P::kTerms>::StoreOutputs(shape, p, outputs, count,
                                                  {y.row(begin), y.stride});
      }
    }
  }

  // Whether panel p has all its outputs, and with it all before it.
  static bool Whole(const PanelShape& shape, uint32_t p) {
    return size_t{p + 1} * checkpoint::kPanelOutputs <= shape.n;
  }

  static void Panel(const std::byte* panel, const PanelShape& shape, size_t lanes, PreparedRows x,
                    size_t rows, float* outputs) {
    if constexpr (P::kManyRows < SIZE_MAX) {
      if (rows >= P::kManyRows) {
        IntegerManyRows<P, P::kTerms>::ManyRows(panel, shape, lanes, x, rows, outputs);
        return;
      }
    }
    if (rows > 1) {
      if constexpr (P::kManyRows > 2) Avx2Tile<P>::Panel(panel, shape, lanes, x, rows, outputs);
    } else {
      Avx2OneRow<P>::Panel(panel, shape, lanes, x.row(0), outputs);
    }
  }
};

template <class P>
constexpr PanelKernels MakeAvx2Panels(std::string_view instructions) {
  return {.instructions = instructions,
          .tile_rows = P::kTileRows,
          .panels_at_once = kPanelsAtOnce,
          .whole_codes = P::kTerms == 2,
          .prepare = IntegerPanels<P, P::kTerms>::Prepare,
          .product = Avx2Panels<P>::Product};
}

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES
