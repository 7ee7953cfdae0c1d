// Random weights from counters: every piece of a tensor can be computed alone, so that neither
// threads nor the order of writing leave a trace in the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/panel.h"

namespace slotstream::checkpoint {

// The i-th value of stream `key`: splitmix64. Also makes keys of streams below `key`.
constexpr uint64_t Draw(uint64_t key, uint64_t i) {
  uint64_t z = key + (i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
// The stream of a named tensor.
uint64_t NameKey(uint64_t seed, std::string_view name);

// Which of eight neighbouring inputs a weight listens to, as a mask over the nibbles of a word.
inline constexpr uint32_t kAllInputs = 0xFFFFFFFF;

// A 4-bit matrix: values spread evenly over the sixteen levels, around zero.
struct PanelRecipe {
  // Per output: standard deviation of its weights, and the inputs that it listens to. What it does
  // not listen to gets the two levels next to zero, an eleventh of the others' size.
  std::vector<float> deviation;
  std::vector<uint32_t> inputs;
  std::vector<float> group_gain;  // per group of inputs; empty means 1
  // Of two neighbouring inputs the second one's weight is the negative of the first one's: what
  // they have in common cancels.
  bool differences = false;
};

size_t PanelBytes(const PanelShape& shape, uint32_t panel);
// Fills panel `panel` of a matrix; lanes past its outputs are zero.
void FillPanel(const PanelShape& shape, const PanelRecipe& recipe, uint64_t key, uint32_t panel,
               std::byte* out);

// Rows of a 4-bit table.
struct RowRecipe {
  float deviation = 1;
  uint32_t random = kAllInputs;  // nibbles that are drawn; the others are those of `fixed`
  uint32_t fixed = 0;
};
// Fills one row of width/8 words, width/group scales and as many biases.
void FillRow(uint32_t width, uint32_t group, const RowRecipe& recipe, uint64_t key, uint64_t row,
             std::byte* out);

// A plain matrix or vector: normal deviates (bell-shaped within 3.5 deviations) around a mean.
struct ValueRecipe {
  float mean = 0;
  std::array<float, 8> deviation{};  // by column modulo 8
  std::vector<float> constant;       // per row, added in every eighth column; may be empty
};
// Fills row `row` of k values.
void FillValues(const ValueRecipe& recipe, uint64_t key, uint64_t row, std::span<float> out);
void FillValues(const ValueRecipe& recipe, uint64_t key, uint64_t row, std::span<uint16_t> bf16);

}  // namespace slotstream::checkpoint
