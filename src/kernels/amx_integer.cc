// The integer products for AMX: a tile of 16 outputs by 64 inputs meets one of 64 inputs by up to
// 16 rows. Few rows, and groups of other sizes, go through AVX-512 VNNI.
#if defined(__x86_64__)

#define SS_INTEGER_TARGET "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,amx-tile,amx-int8"
#include "kernels/avx512vnni_lanes-inl.h"

HWY_PUSH_ATTRIBUTES(SS_INTEGER_TARGET)
namespace slotstream::kernels {
namespace {

struct AmxLanes : Avx512VnniLanes {};  // its own functions, compiled for this file's instructions

// Below this, multiplying the tile's unused rows costs more than it saves.
constexpr size_t kFewestRows = 6;
constexpr size_t kTileRows = 16;
constexpr size_t kTileInputs = 64;

// Tile registers: what they hold, not how large they are.
#define SS_SUM 0
#define SS_HIGH_SUM 1
#define SS_CODES 2
#define SS_NIBBLES 3

// The shapes of the tiles, as the processor reads them (palette 1).
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  explicit TileShapes(size_t activation_rows) {
    for (size_t tile : {SS_SUM, SS_HIGH_SUM, SS_CODES, SS_NIBBLES}) {
      row_bytes[tile] = 64;
      rows[tile] = static_cast<uint8_t>(tile == SS_NIBBLES ? kTileRows : activation_rows);
    }
  }
};

template <size_t kTerms>
struct AmxPanels {
  using L = AmxLanes;
  using Few = IntegerPanels<L, kTerms>;

  // The nibbles of 16 outputs in 64 inputs, as rows of four inputs by 16 outputs.
  static SS_INLINE void LoadNibbles(const std::byte* words, size_t step_bytes, std::byte* tile) {
#pragma GCC unroll 8
    for (size_t s = 0; s < 8; ++s) {
      const __m512i loaded = L::LoadWords(words + s * step_bytes);
      _mm512_store_si512(tile + s * 128, L::Low(loaded));
      _mm512_store_si512(tile + s * 128 + 64, L::High(loaded));
    }
    _tile_loadd(SS_NIBBLES, tile, 64);
  }

  // Outputs of one panel for rows [0, rows), at most 16, whose tiles are configured.
  static void Panel(const std::byte* panel, const PanelShape& shape, size_t lanes, PreparedRows x,
                    size_t rows, float* outputs) {
    alignas(64) std::byte tile[1024];
    alignas(64) int32_t dots[kTileRows * L::kLanes];
    alignas(64) int32_t high_dots[kTileRows * L::kLanes];
    std::memset(outputs, 0, rows * checkpoint::kPanelOutputs * sizeof(float));
    const size_t step_bytes = lanes * 4;
    for (size_t g = 0; g < shape.groups(); ++g) {
      const std::byte* scales = panel + step_bytes * (kTileInputs / 8);
      const std::byte* biases = scales + lanes * 2;
      const std::byte* codes = x.data + g * kTerms * kTileInputs;
      for (size_t lane = 0; lane < lanes; lane += L::kLanes) {
        LoadNibbles(panel + lane * 4, step_bytes, tile);
        _tile_zero(SS_SUM);
        _tile_loadd(SS_CODES, codes + (kTerms - 1) * kTileInputs, x.stride);
        _tile_dpbsud(SS_SUM, SS_CODES, SS_NIBBLES);
        _tile_stored(SS_SUM, dots, 64);
        if constexpr (kTerms == 2) {
          _tile_zero(SS_HIGH_SUM);
          _tile_loadd(SS_CODES, codes, x.stride);
          _tile_dpbsud(SS_HIGH_SUM, SS_CODES, SS_NIBBLES);
          _tile_stored(SS_HIGH_SUM, high_dots, 64);
        }
        const typename Few::Weights weights(scales + lane * 2, biases + lane * 2);
        for (size_t r = 0; r < rows; ++r) {
          const GroupSum& sum = IntegerRow<kTerms>(x.row(r), shape.k).sums[g];
          __m512i dot = _mm512_add_epi32(L::SetInt(sum.centre), L::LoadInts(dots + r * L::kLanes));
          if constexpr (kTerms == 2) {
            dot =
                _mm512_add_epi32(dot, _mm512_slli_epi32(L::LoadInts(high_dots + r * L::kLanes), 8));
          }
          Few::Combine(dot, sum, weights, outputs + r * checkpoint::kPanelOutputs + lane);
        }
      }
      panel = biases + lanes * 2;
    }
  }

  static void Product(const std::byte* panels, const PanelShape& shape, uint32_t first,
                      uint32_t last, PreparedRows x, size_t rows, MutableRows y) {
    if (rows < kFewestRows || shape.group != kTileInputs) {
      Few::Product(panels, shape, first, last, x, rows, y);
      return;
    }
    alignas(64) float outputs[kTileRows * checkpoint::kPanelOutputs];
    // Blocks of nearly equal size: two of 9 rows cost less than 16 and 2.
    const size_t blocks = (rows + kTileRows - 1) / kTileRows;
    size_t configured = 0;
    for (size_t b = 0; b < blocks; ++b) {
      const size_t begin = rows * b / blocks;
      const size_t count = rows * (b + 1) / blocks - begin;
      if (count != configured) {
        const TileShapes shapes(count);
        _tile_loadconfig(&shapes);
        configured = count;
      }
      for (uint32_t p = first; p < last; ++p) {
        const size_t lanes = shape.lanes(p);
        Panel(panels + shape.panel_offset(p), shape, lanes, {x.row(begin), x.stride}, count,
              outputs);
        const size_t output = size_t{p} * checkpoint::kPanelOutputs;
        const size_t width = shape.n - output < lanes ? shape.n - output : lanes;
        for (size_t r = 0; r < count; ++r) {
          std::memcpy(y.row(begin + r) + output, outputs + r * checkpoint::kPanelOutputs,
                      width * sizeof(float));
        }
      }
    }
    _tile_release();
  }
};

}  // namespace

constinit const PanelKernels kAmxInt8 = {"amx", kRowBlock, IntegerPanels<AmxLanes, 1>::Prepare,
                                         AmxPanels<1>::Product};
constinit const PanelKernels kAmxInt15 = {"amx", kRowBlock, IntegerPanels<AmxLanes, 2>::Prepare,
                                          AmxPanels<2>::Product};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
