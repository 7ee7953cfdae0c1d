#include "checkpoint/random_weights.h"

#include <algorithm>
#include <cstring>

#include "base/bf16.h"

namespace slotstream::checkpoint {
namespace {

// Of the integers 0 to 15, each as likely as the others.
constexpr float kLevelDeviation = 4.6097722f;  // sqrt((16^2 - 1) / 12)
constexpr float kMiddleLevel = 7.5f;
// Of the sum of four numbers that are evenly spread over [0, 65536).
constexpr float kSumDeviation = 37837.23f;  // 65536 * sqrt(4 / 12)
constexpr float kSumMean = 131070.0f;

constexpr uint32_t kOnes = 0x11111111;
constexpr uint32_t kEvenNibbles = 0x0F0F0F0F;

// Levels 7 and 8 in the nibbles outside `inputs`.
uint32_t Listen(uint32_t word, uint32_t inputs) {
  return (word & inputs) | ((7 * kOnes + (word & kOnes)) & ~inputs);
}

uint32_t Differences(uint32_t word) {
  const uint32_t even = word & kEvenNibbles;
  return even | ((~even & kEvenNibbles) << 4);
}

struct ScaleAndBias {
  uint16_t scale, bias;
};

// So that the weights have `deviation` and mean zero.
ScaleAndBias Quantization(float deviation) {
  const uint16_t scale = FloatToBf16(deviation / kLevelDeviation);
  return {scale, FloatToBf16(-kMiddleLevel * Bf16ToFloat(scale))};
}

// A quarter up or down, as scales of trained groups differ too; from the top bits.
float Jitter(uint64_t bits) { return 0.75f + static_cast<float>(bits >> 48) / (2.0f * 65536.0f); }

float Normal(uint64_t bits) {
  float sum = 0;
  for (int i = 0; i < 4; ++i, bits >>= 16) sum += static_cast<float>(bits & 0xFFFF);
  return (sum - kSumMean) / kSumDeviation;
}

float Value(const ValueRecipe& recipe, uint64_t stream, uint64_t row, size_t column) {
  float value = recipe.mean + recipe.deviation[column % 8] * Normal(Draw(stream, column));
  if (column % 8 == 0 && !recipe.constant.empty()) value += recipe.constant[row];
  return value;
}

}  // namespace

uint64_t NameKey(uint64_t seed, std::string_view name) {
  uint64_t key = Draw(seed, 0);
  for (const char c : name) key = Draw(key, static_cast<unsigned char>(c));
  return key;
}

size_t PanelBytes(const PanelShape& shape, uint32_t panel) {
  return size_t{shape.lanes(panel)} * shape.groups() * shape.lane_group_bytes();
}

void FillPanel(const PanelShape& shape, const PanelRecipe& recipe, uint64_t key, uint32_t panel,
               std::byte* out) {
  const uint32_t lanes = shape.lanes(panel);
  const uint32_t first = panel * kPanelOutputs;
  const uint32_t used = std::min(lanes, shape.n - first);
  const uint32_t* inputs = recipe.inputs.data() + first;
  const float* deviation = recipe.deviation.data() + first;
  const uint64_t words_key = Draw(key, 2 * panel), scales_key = Draw(key, 2 * panel + 1);
  uint64_t drawn = 0;
  // Lanes past n stay zero.
  std::array<uint32_t, kPanelOutputs> words{};
  std::array<uint16_t, kPanelOutputs> scales{}, biases{};
  for (uint32_t g = 0; g < shape.groups(); ++g) {
    for (uint32_t step = 0; step < shape.group / 8; ++step) {
      for (uint32_t lane = 0; lane < used; lane += 2) {
        const uint64_t bits = Draw(words_key, drawn++);
        words[lane] = static_cast<uint32_t>(bits);
        if (lane + 1 < used) words[lane + 1] = static_cast<uint32_t>(bits >> 32);
      }
      if (recipe.differences) {
        for (uint32_t lane = 0; lane < used; ++lane) words[lane] = Differences(words[lane]);
      } else {
        for (uint32_t lane = 0; lane < used; ++lane) {
          words[lane] = Listen(words[lane], inputs[lane]);
        }
      }
      std::memcpy(out, words.data(), lanes * sizeof(uint32_t));
      out += lanes * sizeof(uint32_t);
    }
    const float gain = recipe.group_gain.empty() ? 1.0f : recipe.group_gain[g];
    for (uint32_t lane = 0; lane < used; ++lane) {
      const float jitter = Jitter(Draw(scales_key, uint64_t{g} * kPanelOutputs + lane));
      const ScaleAndBias pair = Quantization(deviation[lane] * gain * jitter);
      scales[lane] = pair.scale;
      biases[lane] = pair.bias;
    }
    for (const auto* piece : {&scales, &biases}) {
      std::memcpy(out, piece->data(), lanes * sizeof(uint16_t));
      out += lanes * sizeof(uint16_t);
    }
  }
}

void FillRow(uint32_t width, uint32_t group, const RowRecipe& recipe, uint64_t key, uint64_t row,
             std::byte* out) {
  const uint64_t stream = Draw(key, row);
  for (uint32_t i = 0; i < width / 8; ++i, out += sizeof(uint32_t)) {
    const auto word = static_cast<uint32_t>(Draw(stream, i / 2) >> (i % 2 * 32));
    const uint32_t shaped = (word & recipe.random) | (recipe.fixed & ~recipe.random);
    std::memcpy(out, &shaped, sizeof(shaped));
  }
  const ScaleAndBias pair = Quantization(recipe.deviation);
  for (const uint16_t value : {pair.scale, pair.bias}) {
    for (uint32_t g = 0; g < width / group; ++g, out += sizeof(value)) {
      std::memcpy(out, &value, sizeof(value));
    }
  }
}

void FillValues(const ValueRecipe& recipe, uint64_t key, uint64_t row, std::span<float> out) {
  const uint64_t stream = Draw(key, row);
  for (size_t i = 0; i < out.size(); ++i) out[i] = Value(recipe, stream, row, i);
}

void FillValues(const ValueRecipe& recipe, uint64_t key, uint64_t row, std::span<uint16_t> bf16) {
  const uint64_t stream = Draw(key, row);
  for (size_t i = 0; i < bf16.size(); ++i) bf16[i] = FloatToBf16(Value(recipe, stream, row, i));
}

}  // namespace slotstream::checkpoint
