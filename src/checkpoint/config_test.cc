#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/published_config.h"

namespace slotstream::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ModelConfig> Parse(const json& config) { return ParseConfig(config.dump(), "config.json"); }

TEST(Config, PublishedModel) {
  auto config = Parse(PublishedConfig());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_layers(), 48u);
  EXPECT_EQ(config->layers[2], LayerKind::kLinearAttention);
  EXPECT_EQ(config->layers[3], LayerKind::kFullAttention);
  EXPECT_EQ(config->rotary_dim, 64u);
  EXPECT_EQ(config->rope_theta, 1e7);
  EXPECT_THAT(config->mrope_section, ElementsAre(11, 11, 10));
  EXPECT_EQ(config->hc_width(), 10240u);
  EXPECT_EQ(config->conv_dim(), 10240u);
  EXPECT_EQ(config->value_dim(), 6144u);
  EXPECT_EQ(config->index_blocks(), 512u);
  EXPECT_THAT(config->ple_layers, ElementsAre(1));  // counted from one in the file
  EXPECT_EQ(config->ngram_row_width(), 160u);
  EXPECT_EQ(config->hash_seed, 1234u);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_FALSE(config->output_gate_silu);
  EXPECT_EQ(config->eos_token_id, 248044u);
  EXPECT_EQ(config->image_token_id, 248056u);
  ASSERT_TRUE(config->vision);
  EXPECT_EQ(config->vision->intermediate_size, 4304u);
  EXPECT_EQ(config->quantization_group, 64u);
}

TEST(Config, AbsentKeysHaveTheirDefaults) {
  json config = PublishedConfig();
  json& text = config["text_config"];
  for (const char* key :
       {"layer_types", "output_gate_type", "ple_conv_kernel_size", "rms_norm_eps", "bos_token_id",
        "mtp", "mtp_num_hidden_layers", "max_position_embeddings", "partial_rotary_factor"}) {
    text.erase(key);
  }
  text["full_attention_interval"] = 3;
  text["rope_parameters"].erase("mrope_section");
  config.erase("vision_config");
  config.erase("quantization");
  auto parsed = Parse(config);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->layers[1], LayerKind::kLinearAttention);
  EXPECT_EQ(parsed->layers[2], LayerKind::kFullAttention);
  EXPECT_TRUE(parsed->output_gate_silu);  // the gate follows hidden_act
  EXPECT_EQ(parsed->ple_conv_kernel, 4u);
  EXPECT_FLOAT_EQ(parsed->rms_norm_eps, 1e-6f);
  EXPECT_FALSE(parsed->bos_token_id);
  EXPECT_EQ(parsed->mtp_layers, 1u);
  EXPECT_EQ(parsed->mtp_rope_theta, 1e7);
  EXPECT_EQ(parsed->rotary_dim, 64u);  // from rope_parameters
  EXPECT_THAT(parsed->mrope_section, ElementsAre(32, 0, 0));
  EXPECT_FALSE(parsed->vision);
  EXPECT_FALSE(parsed->quantization_group);
}

TEST(Config, AcceptsWhatMeansTheSame) {
  json config = PublishedConfig();
  json& text = config["text_config"];
  text["layer_types"][3] = "deepseek_sparse_attention";
  text["layer_types"][7] = "hybrid_indexed";
  text["eos_token_id"] = {248044, 248046};
  text["ple_layer_ids"] = {7, 2};
  text["seed"] = 5;
  text["norm_topk_prob"] = false;
  text["mtp"]["rope_theta"] = 20000;
  config["language_model_only"] = true;
  config["an unknown key"] = {1, 2, 3};
  config["quantization"]["model.layers.1.x"] = {{"group_size", 32}, {"bits", 4}};
  config["quantization"]["model.layers.1.y"] = false;
  auto parsed = Parse(config);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->layers[3], LayerKind::kFullAttention);
  EXPECT_EQ(parsed->layers[7], LayerKind::kFullAttention);
  EXPECT_EQ(parsed->eos_token_id, 248044u);
  EXPECT_THAT(parsed->ple_layers, ElementsAre(1, 6));
  EXPECT_EQ(parsed->hash_seed, 5u);
  EXPECT_FALSE(parsed->norm_topk_prob);
  EXPECT_EQ(parsed->mtp_rope_theta, 20000);
  EXPECT_FALSE(parsed->vision);
  EXPECT_EQ(parsed->quantization_overrides.at("model.layers.1.x"), 32u);
}

struct BadCase {
  const char* pointer;  // JSON pointer; null counts as absent
  json value;
  ErrorCode code;
  const char* mentions;
};

TEST(Config, RefusesWhatItCannotRun) {
  const json absent = nullptr;
  const ErrorCode bad = ErrorCode::kCorrupt, no = ErrorCode::kUnsupported;
  const std::vector<BadCase> cases = {
      {"/model_type", "qwen3_moe", no, "qwen3_moe"},
      {"/text_config", absent, bad, "text_config"},
      {"/text_config", json::array(), bad, "object"},
      {"/tie_word_embeddings", true, no, "tie_word_embeddings"},
      {"/text_config/tie_word_embeddings", true, no, "tie_word_embeddings"},
      {"/text_config/attention_bias", true, no, "attention_bias"},
      {"/text_config/hidden_size", absent, bad, "hidden_size"},
      {"/text_config/hidden_size", "2560", bad, "hidden_size"},
      {"/text_config/hidden_size", -1, bad, "hidden_size"},
      {"/text_config/hidden_size", 2560.0, bad, "hidden_size"},
      {"/text_config/hidden_size", 1u << 30, bad, "hidden_size"},
      {"/text_config/vocab_size", 0, bad, "vocab_size"},
      {"/text_config/layer_types", json::array({"full_attention"}), bad, "layer_types"},
      {"/text_config/layer_types/5", "sliding_attention", no, "sliding_attention"},
      {"/text_config/layer_types/5", 7, bad, "layer_types"},
      {"/text_config/rope_parameters/rope_type", "yarn", no, "YaRN"},
      {"/text_config/rope_scaling", {{"type", "yarn"}}, no, "YaRN"},
      {"/text_config/rope_parameters/mrope_interleaved", false, no, "mrope_interleaved"},
      {"/text_config/rope_parameters/mrope_section", {1, 2}, bad, "mrope_section"},
      {"/text_config/rope_parameters/mrope_section", {1, 2, -3}, bad, "mrope_section"},
      {"/text_config/rope_parameters/partial_rotary_factor", 0.5, bad, "partial_rotary_factor"},
      {"/text_config/rope_parameters/rope_theta", "x", bad, "rope_theta"},
      {"/text_config/head_dim", 4, bad, "rotary"},
      {"/text_config/head_dim", 1024, bad, "indexer_head_dim"},
      {"/text_config/num_key_value_heads", 7, bad, "num_attention_heads"},
      {"/text_config/num_key_value_heads", 0, bad, "num_key_value_heads"},
      {"/text_config/indexer_kv_heads", 2, no, "indexer_kv_heads"},
      {"/text_config/indexer_budget", 2047, bad, "indexer_budget"},
      {"/text_config/linear_num_value_heads", 40, bad, "linear_num_value_heads"},
      {"/text_config/hidden_act", "gelu", no, "hidden_act"},
      {"/text_config/output_gate_type", "tanh", no, "output_gate_type"},
      {"/text_config/num_experts_per_tok", 513, bad, "num_experts_per_tok"},
      {"/text_config/norm_topk_prob", 1, bad, "norm_topk_prob"},
      {"/text_config/hc_count", 1, bad, "hc_count"},
      {"/text_config/ple_layer_ids", {0}, bad, "ple_layer_ids"},
      {"/text_config/ple_layer_ids", {49}, bad, "ple_layer_ids"},
      {"/text_config/ple_layer_ids", {2, 2}, bad, "ple_layer_ids"},
      {"/text_config/ple_embed_dim", 2552, bad, "ple_embed_dim"},
      {"/text_config/ple_embed_dim", 64, bad, "ple_embed_dim"},
      {"/text_config/ngram_size", 1, bad, "ngram_size"},
      {"/text_config/eos_token_id", absent, bad, "eos_token_id"},
      {"/text_config/eos_token_id", 248320, bad, "eos_token_id"},
      {"/text_config/eos_token_id", json::array(), bad, "eos_token_id"},
      {"/text_config/mtp_use_dedicated_embeddings", true, no, "mtp_use_dedicated_embeddings"},
      {"/vision_config/hidden_act", "relu", no, "hidden_act"},
      {"/vision_config/num_position_embeddings", 2305, bad, "num_position_embeddings"},
      {"/vision_config/out_hidden_size", 2561, bad, "out_hidden_size"},
      {"/vision_config/num_heads", 7, bad, "hidden_size"},
      {"/vision_config/deepstack_visual_indexes", {3}, no, "deepstack"},
      {"/quantization/bits", 8, no, "bits"},
      {"/quantization/mode", "mxfp4", no, "mode"},
      {"/quantization/some.module", {{"group_size", 32}, {"bits", 8}}, no, "bits"},
  };
  for (const BadCase& c : cases) {
    SCOPED_TRACE(c.pointer + std::string(" = ") + c.value.dump());
    json config = PublishedConfig();
    config[json::json_pointer(c.pointer)] = c.value;
    auto parsed = Parse(config);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, c.code);
    EXPECT_THAT(parsed.error().message, HasSubstr(c.mentions));
    EXPECT_THAT(parsed.error().message, HasSubstr("config.json"));
  }
}

TEST(Config, HostileJson) {
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(ParseConfig(deep, "c").error().message, HasSubstr("nested"));
  EXPECT_THAT(ParseConfig("{\"a\":1,\"a\":2}", "c").error().message, HasSubstr("twice"));
  EXPECT_FALSE(ParseConfig("", "c"));
  EXPECT_FALSE(ParseConfig("null", "c"));
  EXPECT_FALSE(ParseConfig("{\"model_type\": 1e999}", "c"));
  EXPECT_FALSE(ParseConfig("{\"model_type\": \"\xff\xfe\"}", "c"));
}

TEST(Config, Generation) {
  auto full = ParseGenerationConfig(
      R"({"do_sample": true, "temperature": 1.0, "top_k": 20, "top_p": 0.95,
          "eos_token_id": [248046, 248044]})",
      "generation_config.json");
  ASSERT_TRUE(full) << full.error().message;
  EXPECT_THAT(full->eos_token_ids, ElementsAre(248046, 248044));
  EXPECT_EQ(full->temperature, 1.0f);
  EXPECT_EQ(full->top_k, 20u);
  EXPECT_FLOAT_EQ(*full->top_p, 0.95f);
  auto single = ParseGenerationConfig(R"({"eos_token_id": 5, "do_sample": false})", "g");
  ASSERT_TRUE(single);
  EXPECT_THAT(single->eos_token_ids, ElementsAre(5));
  EXPECT_EQ(single->temperature, 0.0f);
  EXPECT_FALSE(single->top_p);
  EXPECT_TRUE(ParseGenerationConfig("{}", "g"));
  for (const char* bad :
       {R"({"eos_token_id": -1})", R"({"eos_token_id": ["x"]})", R"({"top_p": 2})",
        R"({"temperature": "hot"})", R"({"top_k": 1.5})", "[]"}) {
    EXPECT_FALSE(ParseGenerationConfig(bad, "g")) << bad;
  }
}

}  // namespace
}  // namespace slotstream::checkpoint
