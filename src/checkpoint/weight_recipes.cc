#include "checkpoint/weight_recipes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace slotstream::checkpoint {
namespace {

// The three kinds of hidden values, as masks over the nibbles of a word of eight inputs.
constexpr uint32_t kConstantInputs = 0x0000000F;
constexpr uint32_t kSlowInputs = 0x000FFFF0;
constexpr uint32_t kFreshInputs = 0xFFF00000;
constexpr double kConstantShare = 1.0 / 8, kSlowShare = 4.0 / 8, kFreshShare = 3.0 / 8;
constexpr bool IsSlow(uint32_t i) { return i % 8 >= 1 && i % 8 <= 4; }
constexpr bool IsFresh(uint32_t i) { return i % 8 >= 5; }

// An embedding's values have deviation 1, which puts the highest of sixteen levels, the constant,
// here.
constexpr double kConstant = 1.627;
// Constant 15; slow 7 and 8 in turn, the levels next to zero.
constexpr uint32_t kEmbeddingLevels = 0x0008787F;

// What one mixer adds to the slow values, one mixture of experts to the fresh ones: small against
// the embedding, large enough to be seen after one layer and not to drown all else after 48.
constexpr double kMixerStep = 0.3;
constexpr double kExpertStep = 0.15;
// A block's writes outside its kind of values, against those within.
constexpr float kElsewhere = 0.02f;

// The mean of sigmoids around zero over the normed streams, which a block reads.
constexpr double kMixGate = 0.5;

// Deviations of the slow and fresh part of router logits at skew 1, and of their sum; and the
// tokens over which running means are formed. Chosen among two dozen combinations by the hit rates
// in docs/SYNTHETIC.md: longer memories make them rise too steeply from 30 to 128 slots, and the
// part of a mean that never changes, popularity, is enough without constant values' help.
constexpr double kRepeated = 1.35, kOwn = 1.0;
constexpr double kLogits = 2.0;  // ties and near ties stay rare
constexpr double kShortestMemory = 1.2, kLongestMemory = 8;

// Rms of a delta net's normed and gated output that depends on the token's past: 0.93 of it before
// the output gate halves it. Measured on a running mean of silu of normal deviates.
constexpr double kGatedOutput = 0.465;

double Root(double value) { return std::sqrt(value); }

// The number behind "layers." in a tensor's name.
uint32_t LayerOf(std::string_view name) {
  constexpr std::string_view kMark = "layers.";
  uint32_t layer = 0;
  if (const size_t at = name.find(kMark); at != std::string_view::npos) {
    std::from_chars(name.data() + at + kMark.size(), name.data() + name.size(), layer);
  }
  return layer;
}

// Deviation gain / sqrt(k) everywhere: outputs keep the size of inputs times gain.
PanelRecipe Plain(uint32_t n, uint32_t k, double gain) {
  return {.deviation = std::vector<float>(n, static_cast<float>(gain / Root(k))),
          .inputs = std::vector<uint32_t>(n, kAllInputs),
          .group_gain = {},
          .differences = false};
}

template <typename Kind>
void WriteOnly(PanelRecipe& recipe, Kind kind) {
  for (uint32_t n = 0; n < recipe.deviation.size(); ++n) {
    if (!kind(n)) recipe.deviation[n] *= kElsewhere;
  }
}

ValueRecipe Around(double mean, double deviation) {
  ValueRecipe recipe;
  recipe.mean = static_cast<float>(mean);
  recipe.deviation.fill(static_cast<float>(deviation));
  return recipe;
}

}  // namespace

WeightRecipes::Residual WeightRecipes::Of(uint32_t mixers, uint32_t experts) const {
  Residual out;
  out.slow = kMixerStep * Root(mixers);
  out.fresh = Root(1 + kExpertStep * kExpertStep * experts);
  out.all = Root(kConstantShare * kConstant * kConstant + kSlowShare * out.slow * out.slow +
                 kFreshShare * out.fresh * out.fresh);
  return out;
}

// Delta nets among the first layers; those of the draft head are none.
uint32_t WeightRecipes::Mixers(uint32_t layers) const {
  const auto end = config_.layers.begin() + std::min(layers, config_.num_layers());
  return static_cast<uint32_t>(
      std::count(config_.layers.begin(), end, LayerKind::kLinearAttention));
}

WeightRecipes::Residual WeightRecipes::BeforeMixer(std::string_view tensor) const {
  const uint32_t depth = LayerOf(tensor) + (tensor.starts_with("mtp.") ? config_.num_layers() : 0);
  return Of(Mixers(depth), depth);
}

WeightRecipes::Residual WeightRecipes::AfterMixer(std::string_view tensor) const {
  const uint32_t depth = LayerOf(tensor) + (tensor.starts_with("mtp.") ? config_.num_layers() : 0);
  return Of(Mixers(depth + 1), depth);
}

double WeightRecipes::TokensRemembered(uint32_t head) const {
  const double last = std::max(1.0, config_.linear_value_heads - 1.0);
  return kShortestMemory * std::pow(kLongestMemory / kShortestMemory, head / last);
}

// Queries and keys see the constant values alone, so that every token reads what all others wrote:
// the state becomes a running mean of the values. These see fresh values alone.
void WeightRecipes::ShapeDeltaNetInput(PanelRecipe& recipe, std::string_view name) const {
  // Large against the convolution's silu: that leaves positive numbers, and queries and keys alike.
  constexpr double kQueryKeySize = 4.0;
  const Residual residual = BeforeMixer(name);
  const double seen = kMixGate / residual.all * Root(config_.hidden_size);
  const double constant = seen * kConstant * Root(kConstantShare);
  const double fresh = seen * residual.fresh * Root(kFreshShare);
  const uint32_t keys = 2 * config_.linear_key_heads * config_.linear_key_dim;
  for (uint32_t n = 0; n < recipe.deviation.size(); ++n) {
    const bool value = n >= keys;
    recipe.inputs[n] = value ? kFreshInputs : kConstantInputs;
    recipe.deviation[n] = static_cast<float>(value ? 1 / fresh : kQueryKeySize / constant);
  }
}

// The values' silu has a mean, the same in all channels, that would outweigh the running mean's
// changes: differences of channels are free of it. A mean over more tokens changes less; its head
// gets more weight, so that all memories count alike.
void WeightRecipes::ShapeDeltaNetOutput(PanelRecipe& recipe, const ResidentTensor& tensor) const {
  recipe.differences = true;
  for (uint32_t k = 0; k < tensor.k; k += tensor.group) {
    const double update = 1 / TokensRemembered(k / config_.linear_value_dim);
    recipe.group_gain.push_back(static_cast<float>(Root((2 - update) / update)));
  }
  WriteOnly(recipe, IsSlow);
}

PanelRecipe WeightRecipes::Panels(const ResidentTensor& tensor) const {
  const std::string_view name = tensor.name;
  const auto plain = [&](double gain) { return Plain(tensor.n, tensor.k, gain); };
  if (name.ends_with("linear_attn.in_proj_qkv")) {
    PanelRecipe recipe = plain(1);
    ShapeDeltaNetInput(recipe, name);
    return recipe;
  }
  // A gate that hardly moves: else it would make the slow values fresh.
  if (name.ends_with("linear_attn.in_proj_z")) return plain(0.05);
  if (name.ends_with("linear_attn.out_proj")) {
    PanelRecipe recipe = plain(kMixerStep / kGatedOutput);
    ShapeDeltaNetOutput(recipe, tensor);
    return recipe;
  }
  if (name.ends_with("self_attn.v_proj")) {
    PanelRecipe recipe = plain(1);
    std::ranges::fill(recipe.inputs, kFreshInputs);
    return recipe;
  }
  if (name.ends_with("self_attn.o_proj")) {
    // A mean over many keys is small.
    PanelRecipe recipe = plain(3);
    WriteOnly(recipe, IsSlow);
    return recipe;
  }
  if (name.ends_with("shared_expert.gate_proj") || name.ends_with("shared_expert.up_proj")) {
    return ExpertInner({tensor.n, tensor.k, tensor.group});
  }
  if (name.ends_with("shared_expert.down_proj")) {
    return ExpertDown({tensor.n, tensor.k, tensor.group});
  }
  if (name.ends_with("ple.value_proj")) {
    PanelRecipe recipe = plain(0.6);
    WriteOnly(recipe, IsFresh);
    return recipe;
  }
  if (name == "lm_head") {
    // What never changes would favour the same tokens forever.
    PanelRecipe recipe = plain(2);
    std::ranges::fill(recipe.inputs, kSlowInputs | kFreshInputs);
    for (const uint32_t id : quiet_ids_) recipe.deviation[id] = 0;
    return recipe;
  }
  return plain(1);
}

RowRecipe WeightRecipes::Embeddings() const {
  return {.deviation = 1, .random = kFreshInputs, .fixed = kEmbeddingLevels};
}

RowRecipe WeightRecipes::NgramRows() const { return {}; }

PanelRecipe WeightRecipes::ExpertInner(const PanelShape& shape) const {
  return Plain(shape.n, shape.k, 1 / kMixGate);
}

PanelRecipe WeightRecipes::ExpertDown(const PanelShape& shape) const {
  PanelRecipe recipe = Plain(shape.n, shape.k, 1);
  WriteOnly(recipe, IsFresh);
  return recipe;
}

ValueRecipe WeightRecipes::Router(const ResidentTensor& tensor) const {
  const Residual residual = AfterMixer(tensor.name);
  const double repeated = kRepeated * skew_;
  const double scale = kLogits / Root(repeated * repeated + kOwn * kOwn);
  // Weights that turn a kind's values, normed and mixed, into logits of this deviation.
  const auto weight = [&](double logits, double size, double share) {
    const double seen = kMixGate * size / residual.all * Root(share * config_.hidden_size);
    return static_cast<float>(seen > 0 ? scale * logits / seen : 0);
  };
  ValueRecipe recipe;
  for (uint32_t i = 0; i < recipe.deviation.size(); ++i) {
    recipe.deviation[i] = IsSlow(i)    ? weight(repeated, residual.slow, kSlowShare)
                          : IsFresh(i) ? weight(kOwn, residual.fresh, kFreshShare)
                                       : 0.0f;
  }
  return recipe;
}

// beta = 1 / (tokens remembered), through the constant values.
ValueRecipe WeightRecipes::UpdateGate(const ResidentTensor& tensor) const {
  ValueRecipe recipe = Around(0, 0.1 / Root(tensor.k));
  const double sum =
      kMixGate * kConstant / BeforeMixer(tensor.name).all * kConstantShare * config_.hidden_size;
  for (uint32_t head = 0; head < tensor.n; ++head) {
    recipe.constant.push_back(static_cast<float>(-std::log(TokensRemembered(head) - 1) / sum));
  }
  return recipe;
}

ValueRecipe WeightRecipes::Values(const ResidentTensor& tensor) const {
  const std::string_view name = tensor.name;
  if (tensor.storage == Storage::kBf16) {
    if (name.ends_with("mlp.gate")) return Router(tensor);
    if (name.ends_with("linear_attn.in_proj_b")) return UpdateGate(tensor);
    if (name.ends_with("linear_attn.in_proj_a")) return Around(0, 0.1 / Root(tensor.k));
    return Around(0, 1 / Root(tensor.k));
  }
  // The state hardly decays by itself; the updates make it forget.
  if (name.ends_with("A_log")) return Around(std::log(1.0 / 1024), 0);
  if (name.ends_with("dt_bias")) return Around(0, 0.5);
  if (name.ends_with("ple.conv1d")) return Around(0, 0.1);
  if (name.ends_with("conv1d")) return Around(0, 1 / Root(tensor.n));
  if (name.ends_with(".bias")) return Around(0, 0.02);
  return Around(1, 0.1);  // norms
}

}  // namespace slotstream::checkpoint
