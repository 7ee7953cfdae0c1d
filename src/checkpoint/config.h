// config.json of a qwen4_exp checkpoint: parsed, defaulted, and checked before anything else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slotstream::checkpoint {

// Most taps of any convolution.
inline constexpr uint32_t kMaxConvKernel = 64;

enum class LayerKind { kLinearAttention, kFullAttention };

// The vision tower (config.json's vision_config).
struct VisionConfig {
  uint32_t depth = 0;
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  uint32_t num_heads = 0;
  uint32_t in_channels = 0;
  uint32_t patch_size = 0;
  uint32_t temporal_patch_size = 0;
  uint32_t spatial_merge_size = 0;
  uint32_t num_position_embeddings = 0;
  uint32_t out_hidden_size = 0;
};

// The text model. Names follow config.json; every derived value is a function.
struct ModelConfig {
  uint32_t vocab_size = 0;
  uint32_t hidden_size = 0;
  std::vector<LayerKind> layers;  // one per layer, from layer_types or full_attention_interval
  float rms_norm_eps = 1e-6f;
  uint32_t max_position_embeddings = 0;

  // Sparse attention.
  uint32_t num_attention_heads = 0;
  uint32_t num_key_value_heads = 0;
  uint32_t head_dim = 0;
  uint32_t rotary_dim = 0;  // int(head_dim * partial_rotary_factor), even
  double rope_theta = 0;
  std::vector<uint32_t> mrope_section;  // T, H, W
  uint32_t indexer_heads = 0;
  uint32_t indexer_head_dim = 0;
  uint32_t indexer_budget = 0;          // tokens
  uint32_t indexer_compress_ratio = 0;  // tokens per block

  // Gated delta net.
  uint32_t linear_key_heads = 0;
  uint32_t linear_value_heads = 0;
  uint32_t linear_key_dim = 0;
  uint32_t linear_value_dim = 0;
  uint32_t linear_conv_kernel = 0;
  bool output_gate_silu = false;  // output_gate_type: silu, else sigmoid

  // Mixture of experts.
  uint32_t num_experts = 0;
  uint32_t experts_per_token = 0;
  uint32_t expert_size = 0;         // moe_intermediate_size
  uint32_t shared_expert_size = 0;  // shared_expert_intermediate_size
  bool norm_topk_prob = true;

  // Hyper-connections.
  uint32_t hc_count = 0;  // residual streams
  uint32_t hc_lowrank = 0;

  // n-gram memory. The checkpoint counts ple_layer_ids from one; these count from zero, sorted.
  std::vector<uint32_t> ple_layers;
  uint32_t ple_embed_dim = 0;
  uint32_t ple_conv_kernel = 0;
  uint32_t ngram_size = 0;
  uint32_t heads_per_ngram = 0;
  uint64_t ngram_vocab_size_base = 0;
  uint64_t ngram_vocab_divisor = 0;  // make_ngram_vocab_size_divisible_by
  uint32_t split_ngram_parts = 0;
  uint64_t hash_seed = 1234;

  uint32_t eos_token_id = 0;  // the n-gram segment boundary
  std::optional<uint32_t> bos_token_id;
  std::optional<uint32_t> image_token_id;
  std::optional<uint32_t> video_token_id;
  std::optional<uint32_t> vision_start_token_id;
  std::optional<uint32_t> vision_end_token_id;

  // Draft head (multi-token prediction).
  uint32_t mtp_layers = 0;  // mtp_num_hidden_layers
  double mtp_rope_theta = 0;
  std::optional<VisionConfig> vision;

  // What the quantization block says; the tensors' shapes decide and are checked against it.
  std::optional<uint32_t> quantization_group;
  std::map<std::string, uint32_t> quantization_overrides;  // by module name

  uint32_t num_layers() const { return static_cast<uint32_t>(layers.size()); }
  uint32_t hc_width() const { return hc_count * hidden_size; }  // all streams side by side
  uint32_t ngram_heads() const { return (ngram_size - 1) * heads_per_ngram; }
  uint32_t ngram_row_width() const { return ple_embed_dim / ngram_heads(); }
  uint32_t conv_dim() const {
    return 2 * linear_key_heads * linear_key_dim + linear_value_heads * linear_value_dim;
  }
  uint32_t value_dim() const { return linear_value_heads * linear_value_dim; }
  uint32_t index_blocks() const { return indexer_budget / indexer_compress_ratio; }
};

// Parses and checks config.json's text; `name` (a path) appears in errors. Unknown keys are
// accepted; a key of the wrong type, out of range or contradicting another is an error that names
// the key. kUnsupported: another architecture, YaRN and other rope types, unknown gates or
// activations. Sizes are bounded so that no later product of them overflows.
Result<ModelConfig> ParseConfig(std::string_view json, std::string_view name);

// generation_config.json: the ids that end a reply, and sampling defaults where present.
struct GenerationConfig {
  std::vector<uint32_t> eos_token_ids;
  std::optional<float> temperature, top_p;
  std::optional<uint32_t> top_k;
};
Result<GenerationConfig> ParseGenerationConfig(std::string_view json, std::string_view name);

}  // namespace slotstream::checkpoint
