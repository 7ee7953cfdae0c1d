// The integer products for AVX2, which multiplies bytes into sums of 16 bits and 16 bits into sums
// of 32. int15 has whole codes instead of two terms of bytes, which saves widening, and with few
// rows more than that.
#if defined(__x86_64__)

#define SS_INTEGER_TARGET "avx2,fma"
#include "kernels/avx2_one_row-inl.h"
#include "kernels/avx2_tile-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {
namespace {

using Ints = Avx2Vectors::Ints;
using Bytes = Avx2Vectors::Bytes;

// In assembler: GCC would copy registers, and add in trees whose leaves do not fit into them.
#define SS_MULTIPLY_ADD(multiply, add)             \
  Ints product;                                    \
  asm(multiply " %3, %2, %1\n\t" add " %1, %0, %0" \
      : "+x"(sum), "=&x"(product)                  \
      : "x"(nibbles), "x"(inputs));                \
  return sum

// Sums of 16 bits: four steps add eight pairs of products of at most 15 * 127.
struct Int8Lanes : Avx2Vectors {
  static constexpr size_t kTerms = 1;
  static constexpr size_t kWords = 2;
  static constexpr size_t kSteps = 4;

  static SS_INLINE Ints Nibbles(Bytes words, size_t word) {
    return word == 0 ? Low(words) : High(words);
  }
  static SS_INLINE Ints MultiplyAdd(Ints sum, Ints nibbles, Ints inputs) {
    SS_MULTIPLY_ADD("vpmaddubsw", "vpaddw");
  }
  static SS_INLINE Ints Widen(Ints sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }

  // IntegerManyRows, which is faster from here on, needs these.
  static constexpr size_t kManyRows = 20;
  static constexpr size_t kTileRows = kRowBlock;
  static constexpr size_t kHeldSteps = 4;
  static constexpr size_t kRowsAtOnce = 4;
  using Partial = Ints;
  static constexpr size_t kPartialSteps = kSteps;
  static SS_INLINE Partial Begin() { return SetInt(0); }
  static SS_INLINE Partial Dot(Partial sum, Bytes nibbles, Bytes inputs) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(nibbles, inputs));
    asm("" : "+x"(sum));  // no trees here either
    return sum;
  }
  template <int kShift>
  static SS_INLINE Ints End(Partial sum, Ints ints) {
    return Add(ints, Widen(sum));
  }
};

struct Int15Lanes : Avx2Vectors {
  static constexpr size_t kTerms = 2;
  static constexpr size_t kWords = 4;
  static constexpr size_t kSteps = SIZE_MAX;

  // Codes of n values as prepared_rows.h lays them out for AVX2; the sum of v.
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
  static SS_INLINE Ints MultiplyAdd(Ints sum, Ints nibbles, Ints inputs) {
    SS_MULTIPLY_ADD("vpmaddwd", "vpaddd");
  }
  static SS_INLINE Ints Widen(Ints sum) { return sum; }

  static constexpr size_t kManyRows = SIZE_MAX;
  // Their codes of a group and outputs of a panel stay in the first-level cache.
  static constexpr size_t kTileRows = 50;
};

template <class P>
void Product(const std::byte* panels, const PanelShape& shape, uint32_t first, uint32_t last,
             PreparedRows x, size_t rows, MutableRows y) {
  using Tile = Avx2Tile<P>;
  using OneRow = Avx2OneRow<P>;
  alignas(64) float outputs[P::kTileRows * checkpoint::kPanelOutputs];
  for (size_t begin = 0; begin < rows; begin += P::kTileRows) {
    const size_t count = std::min(P::kTileRows, rows - begin);
    for (uint32_t p = first; p < last; ++p) {
      const std::byte* panel = panels + shape.panel_offset(p);
      const size_t lanes = shape.lanes(p);
      if (count >= P::kManyRows) {
        if constexpr (P::kManyRows < SIZE_MAX) {
          IntegerManyRows<P, P::kTerms>::ManyRows(panel, shape, lanes, {x.row(begin), x.stride},
                                                  count, outputs);
        }
      } else if (count > 1) {
        Tile::Panel(panel, shape, lanes, {x.row(begin), x.stride}, count, outputs);
      } else if (lanes == checkpoint::kPanelOutputs) {
        OneRow::template Panel<8>(panel, shape, lanes, x.row(begin), outputs);
      } else {
        OneRow::template Panel<2>(panel, shape, lanes, x.row(begin), outputs);
      }
      IntegerPanels<P, P::kTerms>::StoreOutputs(shape, p, outputs, count, {y.row(begin), y.stride});
    }
  }
}

template <class P>
constexpr PanelKernels MakePanels() {
  return {"avx2", P::kTileRows, P::kTerms == 2, IntegerPanels<P, P::kTerms>::Prepare, Product<P>};
}

}  // namespace

constinit const PanelKernels kAvx2Int8 = MakePanels<Int8Lanes>();
constinit const PanelKernels kAvx2Int15 = MakePanels<Int15Lanes>();

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
