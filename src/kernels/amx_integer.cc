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

// Tile registers: full blocks of rows and the last, shorter one have their own shapes.
#define SS_NIBBLES 0
#define SS_CODES 1
#define SS_LOW_SUM 2
#define SS_HIGH_SUM 3
#define SS_LAST_CODES 4
#define SS_LAST_LOW_SUM 5
#define SS_LAST_HIGH_SUM 6

// The shapes of the tiles, as the processor reads them (palette 1).
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  explicit TileShapes(size_t last_rows) {
    for (size_t tile = SS_NIBBLES; tile <= SS_LAST_HIGH_SUM; ++tile) {
      row_bytes[tile] = 64;
      rows[tile] = static_cast<uint8_t>(tile < SS_LAST_CODES ? kTileRows : last_rows);
    }
  }
};

// The intrinsics want literal tile numbers, hence a macro.
#define SS_MULTIPLY_TILE(codes_tile, sum_tile)      \
  do {                                              \
    _tile_loadd(codes_tile, codes, stride);         \
    _tile_zero(sum_tile);                           \
    _tile_dpbsud(sum_tile, codes_tile, SS_NIBBLES); \
    _tile_stored(sum_tile, sums, 64);               \
  } while (false)

// sums = codes of a block's rows, `stride` bytes apart, times the nibbles.
template <bool kHigh, bool kLast>
SS_INLINE void MultiplyTile(const std::byte* codes, size_t stride, int32_t* sums) {
  if constexpr (kHigh && kLast) SS_MULTIPLY_TILE(SS_LAST_CODES, SS_LAST_HIGH_SUM);
  if constexpr (kHigh && !kLast) SS_MULTIPLY_TILE(SS_CODES, SS_HIGH_SUM);
  if constexpr (!kHigh && kLast) SS_MULTIPLY_TILE(SS_LAST_CODES, SS_LAST_LOW_SUM);
  if constexpr (!kHigh && !kLast) SS_MULTIPLY_TILE(SS_CODES, SS_LOW_SUM);
}

template <size_t kTerms>
struct AmxPanels {
  using L = AmxLanes;
  using Few = IntegerPanels<L, kTerms>;
  using Group = IntegerGroup<L>;
  using Ints = L::Ints;

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

  // One group of 16 outputs for `rows` rows: a full block, or with kLast the last one.
  template <bool kLast>
  static SS_INLINE void Block(PreparedRows x, size_t k, size_t g, size_t rows,
                              const typename Group::Weights& weights, float* outputs) {
    alignas(64) int32_t dots[kTileRows * L::kLanes];
    alignas(64) int32_t high_dots[kTileRows * L::kLanes];
    const std::byte* codes = x.data + g * kTerms * kTileInputs;
    MultiplyTile<false, kLast>(codes + (kTerms - 1) * kTileInputs, x.stride, dots);
    if constexpr (kTerms == 2) MultiplyTile<true, kLast>(codes, x.stride, high_dots);
    for (size_t r = 0; r < rows; ++r) {
      const GroupSum& sum = IntegerRow<kTerms>(x.row(r), k).sums[g];
      Ints dot = L::Add(L::SetInt(sum.centre), L::LoadInts(dots + r * L::kLanes));
      if constexpr (kTerms == 2) {
        dot = L::Add(dot, _mm512_slli_epi32(L::LoadInts(high_dots + r * L::kLanes), 8));
      }
      Group::Combine(dot, sum, weights, outputs + r * checkpoint::kPanelOutputs);
    }
  }

  // Outputs of one panel for up to kRowBlock rows, whose tiles are configured.
  static void Panel(const std::byte* panel, const PanelShape& shape, size_t lanes, PreparedRows x,
                    size_t rows, float* outputs) {
    alignas(64) std::byte tile[1024];
    std::memset(outputs, 0, rows * checkpoint::kPanelOutputs * sizeof(float));
    const size_t step_bytes = lanes * 4;
    for (size_t g = 0; g < shape.groups(); ++g) {
      const std::byte* scales = panel + step_bytes * (kTileInputs / 8);
      const std::byte* biases = scales + lanes * 2;
      for (size_t lane = 0; lane < lanes; lane += L::kLanes) {
        LoadNibbles(panel + lane * 4, step_bytes, tile);
        const typename Group::Weights weights(scales + lane * 2, biases + lane * 2);
        float* y = outputs + lane;
        size_t r = 0;
        for (; r + kTileRows <= rows; r += kTileRows) {
          Block<false>({x.row(r), x.stride}, shape.k, g, kTileRows, weights,
                       y + r * checkpoint::kPanelOutputs);
        }
        if (r < rows) {
          Block<true>({x.row(r), x.stride}, shape.k, g, rows - r, weights,
                      y + r * checkpoint::kPanelOutputs);
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
    alignas(64) float outputs[kRowBlock * checkpoint::kPanelOutputs];
    size_t configured = SIZE_MAX;
    for (size_t begin = 0; begin < rows; begin += kRowBlock) {
      const size_t count = rows - begin < kRowBlock ? rows - begin : kRowBlock;
      const size_t last_rows = count % kTileRows == 0 ? kTileRows : count % kTileRows;
      if (last_rows != configured) {
        const TileShapes shapes(last_rows);
        _tile_loadconfig(&shapes);
        configured = last_rows;
      }
      for (uint32_t p = first; p < last; ++p) {
        const size_t lanes = shape.lanes(p);
        Panel(panels + shape.panel_offset(p), shape, lanes, {x.row(begin), x.stride}, count,
              outputs);
        Few::StoreOutputs(shape, p, outputs, count, {y.row(begin), y.stride});
      }
    }
    _tile_release();
  }
};

}  // namespace

constinit const PanelKernels kAmxInt8 = {.instructions = "amx",
                                         .tile_rows = kRowBlock,
                                         .prepare = IntegerPanels<AmxLanes, 1>::Prepare,
                                         .product = AmxPanels<1>::Product};
constinit const PanelKernels kAmxInt15 = {.instructions = "amx",
                                          .tile_rows = kRowBlock,
                                          .prepare = IntegerPanels<AmxLanes, 2>::Prepare,
                                          .product = AmxPanels<2>::Product};

}  // namespace slotstream::kernels
HWY_POP_ATTRIBUTES

#endif
