// The configuration of the published model: for synthetic checkpoints, and for tests of its
// numbers.
#pragma once

#include <nlohmann/json.hpp>

namespace slotstream::checkpoint {

inline nlohmann::json PublishedConfig() {
  nlohmann::json layer_types = nlohmann::json::array();
  for (int l = 0; l < 48; ++l) {
    layer_types.push_back(l % 4 == 3 ? "full_attention" : "linear_attention");
  }
  nlohmann::json rope = {{"mrope_interleaved", true},
                         {"mrope_section", {11, 11, 10}},
                         {"partial_rotary_factor", 0.25},
                         {"rope_theta", 1e7},
                         {"rope_type", "default"}};
  nlohmann::json text = {{"model_type", "qwen4_exp_text"},
                         {"vocab_size", 248320},
                         {"hidden_size", 2560},
                         {"num_hidden_layers", 48},
                         {"layer_types", layer_types},
                         {"full_attention_interval", 4},
                         {"rms_norm_eps", 1e-6},
                         {"hidden_act", "silu"},
                         {"num_attention_heads", 24},
                         {"num_key_value_heads", 2},
                         {"head_dim", 256},
                         {"attention_bias", false},
                         {"partial_rotary_factor", 0.25},
                         {"rope_parameters", rope},
                         {"max_position_embeddings", 262144},
                         {"indexer_n_heads", 4},
                         {"indexer_kv_heads", 1},
                         {"indexer_head_dim", 128},
                         {"indexer_budget", 2048},
                         {"indexer_compress_ratio", 4},
                         {"linear_num_key_heads", 16},
                         {"linear_num_value_heads", 48},
                         {"linear_key_head_dim", 128},
                         {"linear_value_head_dim", 128},
                         {"linear_conv_kernel_dim", 4},
                         {"output_gate_type", "sigmoid"},
                         {"num_experts", 512},
                         {"num_experts_per_tok", 10},
                         {"moe_intermediate_size", 640},
                         {"shared_expert_intermediate_size", 640},
                         {"hc_count", 4},
                         {"hc_lowrank", 320},
                         {"ple_layer_ids", {2}},
                         {"ple_embed_dim", 2560},
                         {"ple_conv_kernel_size", 4},
                         {"ngram_size", 3},
                         {"heads_per_ngram", 8},
                         {"ngram_vocab_size_base", 20000000},
                         {"make_ngram_vocab_size_divisible_by", 128},
                         {"split_ngram_parts", 128},
                         {"eos_token_id", 248044},
                         {"bos_token_id", 248044},
                         {"pad_token_id", nullptr},
                         {"mtp_num_hidden_layers", 1},
                         {"mtp_use_dedicated_embeddings", false}};
  text["mtp"] = {{"hybrid", true}, {"num_hidden_layers", 1}, {"rope_theta", 1e7}};
  nlohmann::json vision = {{"depth", 27},
                           {"hidden_size", 1152},
                           {"intermediate_size", 4304},
                           {"num_heads", 16},
                           {"in_channels", 3},
                           {"patch_size", 16},
                           {"temporal_patch_size", 2},
                           {"spatial_merge_size", 2},
                           {"num_position_embeddings", 2304},
                           {"out_hidden_size", 2560},
                           {"hidden_act", "gelu_pytorch_tanh"},
                           {"deepstack_visual_indexes", nlohmann::json::array()}};
  return {{"model_type", "qwen4_exp"},     {"image_token_id", 248056},
          {"video_token_id", 248057},      {"vision_start_token_id", 248053},
          {"vision_end_token_id", 248054}, {"language_model_only", false},
          {"tie_word_embeddings", false},  {"text_config", text},
          {"vision_config", vision},       {"quantization", {{"group_size", 64}, {"bits", 4}}}};
}

}  // namespace slotstream::checkpoint
