#include "checkpoint/expected_tensors.h"

#include <fmt/format.h>

#include <algorithm>

namespace slotstream::checkpoint {
namespace {

// Offsets in a part; a cache line, and the width of one AVX-512 register.
constexpr size_t kTensorAlignment = 64;

// Collects tensors under one prefix, in the file and in memory.
class Collector {
 public:
  Collector(std::string file_prefix, std::string prefix, std::vector<ExpectedTensor>& out)
      : file_prefix_(std::move(file_prefix)), prefix_(std::move(prefix)), out_(out) {}

  Collector Under(const std::string& name) const {
    return Collector(file_prefix_ + name + ".", prefix_ + name + ".", out_);
  }

  void Panels(const std::string& name, uint32_t n, uint32_t k) {
    Add(name, ".weight", Storage::kPanels, n, k, Conversion::kNone, {});
  }
  void Rows(const std::string& name, uint32_t n, uint32_t k) {
    Add(name, ".weight", Storage::kRows, n, k, Conversion::kNone, {});
  }
  void Bf16(const std::string& name, uint32_t n, uint32_t k, std::vector<uint64_t> shape = {}) {
    if (shape.empty()) shape = {n, k};
    Add(name, ".weight", Storage::kBf16, n, k, Conversion::kNone, std::move(shape));
  }
  void Norm(const std::string& name, uint32_t k) {
    Add(name, ".weight", Storage::kFloat32, 1, k, Conversion::kNormPlusOne, {k});
  }
  // A float32 vector stored as it is; `suffix` is part of its name in memory unless ".weight".
  void Vector(const std::string& name, const std::string& suffix, uint32_t k) {
    Add(name, suffix, Storage::kFloat32, 1, k, Conversion::kNone, {k});
  }
  void Convolution(const std::string& name, uint32_t channels, uint32_t kernel) {
    Add(name, ".weight", Storage::kFloat32, kernel, channels, Conversion::kTranspose,
        {channels, kernel, 1});
  }

 private:
  void Add(const std::string& name, const std::string& suffix, Storage storage, uint32_t n,
           uint32_t k, Conversion conversion, std::vector<uint64_t> shape) {
    out_.push_back(ExpectedTensor{.module = file_prefix_ + name,
                                  .suffix = suffix,
                                  .name = prefix_ + name + (suffix == ".weight" ? "" : suffix),
                                  .storage = storage,
                                  .n = n,
                                  .k = k,
                                  .conversion = conversion,
                                  .file_shape = std::move(shape)});
  }

  std::string file_prefix_;
  std::string prefix_;
  std::vector<ExpectedTensor>& out_;
};

void AddMixer(const ModelConfig& c, Collector at) {
  at.Norm("hc_norm", c.hc_width());
  at.Panels("input_mix_weight_down", c.hc_lowrank, c.hc_width());
  at.Panels("input_mix_weight_up", c.hc_width(), c.hc_lowrank);
}

void AddHyperConnection(const ModelConfig& c, Collector at) {
  AddMixer(c, at);
  at.Bf16("block_inject_weight", c.hc_count, c.hc_width());
}

void AddNgramMemory(const ModelConfig& c, Collector at) {
  at.Panels("key_proj", c.hc_width(), c.ple_embed_dim);
  at.Panels("value_proj", c.hidden_size, c.ple_embed_dim);
  for (const char* norm : {"norm_key", "norm_query", "norm_conv"}) at.Norm(norm, c.hc_width());
  at.Convolution("conv1d", c.hc_width(), c.ple_conv_kernel);
}

void AddDeltaNet(const ModelConfig& c, Collector at) {
  at.Panels("in_proj_qkv", c.conv_dim(), c.hidden_size);
  at.Panels("in_proj_z", c.value_dim(), c.hidden_size);
  at.Bf16("in_proj_a", c.linear_value_heads, c.hidden_size);
  at.Bf16("in_proj_b", c.linear_value_heads, c.hidden_size);
  at.Convolution("conv1d", c.conv_dim(), c.linear_conv_kernel);
  at.Vector("A_log", "", c.linear_value_heads);
  at.Vector("dt_bias", "", c.linear_value_heads);
  at.Vector("norm", ".weight", c.linear_value_dim);  // the one norm that multiplies by w itself
  at.Panels("out_proj", c.hidden_size, c.value_dim());
}

void AddAttention(const ModelConfig& c, Collector at) {
  const uint32_t query = c.num_attention_heads * c.head_dim;
  const uint32_t key = c.num_key_value_heads * c.head_dim;
  at.Panels("q_proj", 2 * query, c.hidden_size);  // per head its query, then its gate
  at.Panels("k_proj", key, c.hidden_size);
  at.Panels("v_proj", key, c.hidden_size);
  at.Norm("q_norm", c.head_dim);
  at.Norm("k_norm", c.head_dim);
  Collector indexer = at.Under("indexer");
  indexer.Bf16("index_qk_proj", (c.indexer_heads + 1) * c.indexer_head_dim, c.hidden_size);
  indexer.Norm("q_layernorm", c.indexer_head_dim);
  indexer.Norm("k_layernorm", c.indexer_head_dim);
  at.Panels("o_proj", c.hidden_size, query);
}

void AddMixtureOfExperts(const ModelConfig& c, Collector at) {
  at.Bf16("gate", c.num_experts, c.hidden_size);
  Collector shared = at.Under("shared_expert");
  shared.Panels("gate_proj", c.shared_expert_size, c.hidden_size);
  shared.Panels("up_proj", c.shared_expert_size, c.hidden_size);
  shared.Panels("down_proj", c.hidden_size, c.shared_expert_size);
  at.Bf16("shared_expert_gate", 1, c.hidden_size);
}

void AddLayer(const ModelConfig& c, LayerKind kind, bool ngrams, Collector at) {
  if (ngrams) AddNgramMemory(c, at.Under("ple"));
  AddHyperConnection(c, at.Under("attn_hyper_connection"));
  if (kind == LayerKind::kLinearAttention) {
    AddDeltaNet(c, at.Under("linear_attn"));
  } else {
    AddAttention(c, at.Under("self_attn"));
  }
  AddHyperConnection(c, at.Under("mlp_hyper_connection"));
  AddMixtureOfExperts(c, at.Under("mlp"));
}

void AddTrunk(const ModelConfig& c, Collector at, Collector head) {
  at.Rows("embed_tokens", c.vocab_size, c.hidden_size);
  for (uint32_t l = 0; l < c.num_layers(); ++l) {
    const bool ngrams = std::ranges::find(c.ple_layers, l) != c.ple_layers.end();
    AddLayer(c, c.layers[l], ngrams, at.Under(fmt::format("layers.{}", l)));
  }
  AddMixer(c, at.Under("hyper_connection_mixer"));
  head.Panels("lm_head", c.vocab_size, c.hidden_size);
}

void AddDraft(const ModelConfig& c, Collector at) {
  at.Norm("pre_fc_norm_embedding", c.hidden_size);
  at.Norm("pre_fc_norm_hidden", c.hc_width());
  at.Panels("fc_embedding", c.hidden_size, c.hidden_size);
  at.Panels("fc_hidden", c.hidden_size, c.hidden_size);
  for (uint32_t l = 0; l < c.mtp_layers; ++l) {
    AddLayer(c, LayerKind::kFullAttention, false, at.Under(fmt::format("layers.{}", l)));
  }
  AddMixer(c, at.Under("hyper_connection_mixer"));
}

void AddBiased(Collector at, const std::string& name, uint32_t n, uint32_t k) {
  at.Bf16(name, n, k);
  at.Vector(name, ".bias", n);
}

void AddLayerNorm(Collector at, const std::string& name, uint32_t k) {
  at.Vector(name, ".weight", k);
  at.Vector(name, ".bias", k);
}

void AddVision(const VisionConfig& v, Collector at) {
  const uint32_t patch = v.in_channels * v.temporal_patch_size * v.patch_size * v.patch_size;
  at.Bf16("patch_embed.proj", v.hidden_size, patch,
          {v.hidden_size, v.in_channels, v.temporal_patch_size, v.patch_size, v.patch_size});
  at.Vector("patch_embed.proj", ".bias", v.hidden_size);
  at.Bf16("pos_embed", v.num_position_embeddings, v.hidden_size);
  for (uint32_t l = 0; l < v.depth; ++l) {
    Collector block = at.Under(fmt::format("blocks.{}", l));
    AddLayerNorm(block, "norm1", v.hidden_size);
    AddBiased(block, "attn.qkv", 3 * v.hidden_size, v.hidden_size);
    AddBiased(block, "attn.proj", v.hidden_size, v.hidden_size);
    AddLayerNorm(block, "norm2", v.hidden_size);
    AddBiased(block, "mlp.linear_fc1", v.intermediate_size, v.hidden_size);
    AddBiased(block, "mlp.linear_fc2", v.hidden_size, v.intermediate_size);
  }
  const uint32_t merged = v.hidden_size * v.spatial_merge_size * v.spatial_merge_size;
  AddLayerNorm(at, "merger.norm", v.hidden_size);
  AddBiased(at, "merger.linear_fc1", merged, merged);
  AddBiased(at, "merger.linear_fc2", v.out_hidden_size, merged);
}

uint64_t StoredBytes(const ExpectedTensor& tensor, uint32_t group) {
  const uint64_t values = uint64_t{tensor.n} * tensor.k;
  switch (tensor.storage) {
    case Storage::kPanels:
      return PanelShape{tensor.n, tensor.k, group}.bytes();
    case Storage::kRows:
      return values / 2 + values / group * 4;
    case Storage::kBf16:
      return values * 2;
    case Storage::kFloat32:
      return values * 4;
  }
  return 0;
}

}  // namespace

std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& config, Part part) {
  std::vector<ExpectedTensor> out;
  switch (part) {
    case Part::kTrunk:
      AddTrunk(config, Collector("language_model.model.", "", out),
               Collector("language_model.", "", out));
      break;
    case Part::kDraft:
      if (config.mtp_layers > 0) AddDraft(config, Collector("mtp.", "mtp.", out));
      break;
    case Part::kVision:
      if (config.vision) AddVision(*config.vision, Collector("vision_tower.", "vision.", out));
      break;
  }
  return out;
}

ResidentLayout LayOut(std::span<const ExpectedTensor> tensors, std::span<const uint32_t> groups) {
  ResidentLayout layout;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint32_t group = tensors[i].quantized() ? groups[i] : 0;
    layout.tensors.push_back(ResidentTensor{.name = tensors[i].name,
                                            .storage = tensors[i].storage,
                                            .n = tensors[i].n,
                                            .k = tensors[i].k,
                                            .group = group,
                                            .offset = layout.bytes,
                                            .bytes = StoredBytes(tensors[i], group)});
    layout.bytes = AlignUp(layout.bytes + layout.tensors.back().bytes, kTensorAlignment);
  }
  layout.bytes = AlignUp(layout.bytes, kPageSize);
  return layout;
}

std::string ExpertModule(const ModelConfig& config, uint32_t layer, const char* projection) {
  const bool draft = layer >= config.num_layers();
  return fmt::format("{}layers.{}.mlp.switch_mlp.{}_proj", draft ? "mtp." : "language_model.model.",
                     draft ? layer - config.num_layers() : layer, projection);
}

std::string PleEmbeddingModule(uint32_t layer) {
  return fmt::format("language_model.model.layers.{}.ple.ple_embedding", layer);
}

std::string NgramShardModule(uint32_t layer, uint32_t shard) {
  return fmt::format("{}.ngram_embedding.shard_{}", PleEmbeddingModule(layer), shard);
}

}  // namespace slotstream::checkpoint
