#include "checkpoint/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/config_blocks.h"
#include "checkpoint/strict_json.h"

namespace slotstream::checkpoint {
namespace {

using nlohmann::json;

// See config_blocks.h for what the bounds are for.
constexpr uint32_t kMaxHeadDim = 1u << 12;
constexpr uint32_t kMaxExperts = 1u << 16;
constexpr uint32_t kMaxExpertSize = 1u << 15;
constexpr uint32_t kMaxStreams = 1u << 6;
constexpr uint32_t kMaxContext = 1u << 28;
constexpr uint32_t kMaxPleLayers = 16;
constexpr uint32_t kMaxNgramSize = 16;
constexpr uint32_t kMaxNgramHeads = 256;
constexpr uint64_t kMaxNgramVocab = 1ull << 31;  // primes from here stay below 2^32
constexpr uint32_t kMaxNgramDivisor = 1u << 20;
constexpr uint32_t kMaxSplitParts = 1u << 12;
constexpr uint32_t kMaxDraftLayers = 16;

// The in-memory class of the reference renames full attention; every name of it means the same.
LayerKind ParseLayerKind(const JsonObject& text, const json& entry) {
  constexpr std::array<std::string_view, 4> kFull = {"full_attention", "deepseek_sparse_attention",
                                                     "hybrid_indexed", "sparse_attention"};
  if (!entry.is_string()) {
    text.Corrupt("layer_types", "entries must be strings");
    return LayerKind::kFullAttention;
  }
  const std::string& name = entry.get_ref<const std::string&>();
  if (name == "linear_attention") return LayerKind::kLinearAttention;
  if (std::ranges::find(kFull, name) == kFull.end()) {
    text.Unsupported("layer_types", fmt::format("unknown layer type \"{}\"", name.substr(0, 100)));
  }
  return LayerKind::kFullAttention;
}

void ParseLayers(const JsonObject& text, ModelConfig& out) {
  const uint32_t count = text.U32("num_hidden_layers", 1, kMaxLayers);
  if (text.Has("layer_types")) {
    const json& types = text.Array("layer_types");
    if (text.ok() && types.size() != count) {
      text.Corrupt("layer_types", fmt::format("has {} entries for {} layers", types.size(), count));
      return;
    }
    for (const json& entry : types) out.layers.push_back(ParseLayerKind(text, entry));
    return;
  }
  const uint32_t interval = text.U32("full_attention_interval", 1, kMaxLayers);
  for (uint32_t i = 0; i < count; ++i) {
    out.layers.push_back((i + 1) % interval == 0 ? LayerKind::kFullAttention
                                                 : LayerKind::kLinearAttention);
  }
}

void CheckRopeType(const JsonObject& rope) {
  for (const char* key : {"rope_type", "type"}) {
    std::string type = rope.StringOr(key, "default");
    if (type != "default") {
      rope.Unsupported(
          key, fmt::format("\"{}\" is not supported; only \"default\" (no YaRN or other scaling "
                           "of positions) is",
                           type.substr(0, 100)));
    }
  }
}

void ParseMropeSection(const JsonObject& rope, ModelConfig& out) {
  if (!rope.Has("mrope_section")) {
    out.mrope_section = {out.rotary_dim / 2, 0, 0};
    return;
  }
  const json& section = rope.Array("mrope_section");
  if (section.size() != 3) return rope.Corrupt("mrope_section", "must have three entries");
  for (const json& entry : section) {
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() > kMaxHeadDim) {
      return rope.Corrupt("mrope_section", "entries must be small non-negative integers");
    }
    out.mrope_section.push_back(entry.get<uint32_t>());
  }
}

void ParseRope(const JsonObject& text, ModelConfig& out) {
  // Older files keep these keys in text_config itself.
  const JsonObject rope = text.Has("rope_parameters") ? text.Object("rope_parameters") : text;
  CheckRopeType(rope);
  if (text.Has("rope_scaling")) CheckRopeType(text.Object("rope_scaling"));
  out.rope_theta = rope.Number("rope_theta", 1, 1e12);
  if (!rope.BoolOr("mrope_interleaved", true)) {
    rope.Unsupported("mrope_interleaved", "false is not supported");
  }
  const double outer = text.NumberOr("partial_rotary_factor", 1e-6, 1, 1);
  const double factor = rope.NumberOr("partial_rotary_factor", 1e-6, 1, outer);
  if (text.Has("partial_rotary_factor") && factor != outer) {
    text.Corrupt("partial_rotary_factor", "contradicts rope_parameters");
  }
  out.rotary_dim = static_cast<uint32_t>(out.head_dim * factor);
  if (text.ok() && (out.rotary_dim == 0 || out.rotary_dim % 2 != 0)) {
    rope.Corrupt(
        "partial_rotary_factor",
        fmt::format("gives {} rotary dimensions; an even number is needed", out.rotary_dim));
  }
  ParseMropeSection(rope, out);
}

void ParseAttention(const JsonObject& text, ModelConfig& out) {
  out.num_attention_heads = text.U32("num_attention_heads", 1, kMaxHeads);
  out.num_key_value_heads = text.U32("num_key_value_heads", 1, kMaxHeads);
  out.head_dim = text.U32("head_dim", 1, kMaxHeadDim);
  if (out.num_attention_heads % out.num_key_value_heads != 0) {
    text.Corrupt("num_attention_heads", "must be a multiple of num_key_value_heads");
  }
  if (text.BoolOr("attention_bias", false)) {
    text.Unsupported("attention_bias", "true is not supported");
  }
  ParseRope(text, out);
  out.indexer_heads = text.U32("indexer_n_heads", 1, kMaxHeads);
  out.indexer_head_dim = text.U32("indexer_head_dim", 1, kMaxHeadDim);
  out.indexer_budget = text.U32("indexer_budget", 1, kMaxContext);
  out.indexer_compress_ratio = text.U32("indexer_compress_ratio", 1, 1u << 16);
  if (text.UintOr("indexer_kv_heads", 1, kMaxHeads, 1) != 1) {
    text.Unsupported("indexer_kv_heads", "must be 1");
  }
  if (out.indexer_budget % out.indexer_compress_ratio != 0) {
    text.Corrupt("indexer_budget", "must be a multiple of indexer_compress_ratio");
  }
  if (text.ok() && out.rotary_dim > out.indexer_head_dim) {
    text.Corrupt("indexer_head_dim",
                 fmt::format("is smaller than the {} rotary dimensions", out.rotary_dim));
  }
}

void ParseDeltaNet(const JsonObject& text, ModelConfig& out) {
  out.linear_key_heads = text.U32("linear_num_key_heads", 1, kMaxHeads);
  out.linear_value_heads = text.U32("linear_num_value_heads", 1, kMaxHeads);
  out.linear_key_dim = text.U32("linear_key_head_dim", 1, kMaxHeadDim);
  out.linear_value_dim = text.U32("linear_value_head_dim", 1, kMaxHeadDim);
  out.linear_conv_kernel = text.U32("linear_conv_kernel_dim", 1, kMaxConvKernel);
  if (out.linear_value_heads % out.linear_key_heads != 0) {
    text.Corrupt("linear_num_value_heads", "must be a multiple of linear_num_key_heads");
  }
  const std::string act = text.StringOr("hidden_act", "silu");
  if (act != "silu") text.Unsupported("hidden_act", "only silu is supported");
  const std::string gate = text.StringOr("output_gate_type", act);
  if (gate != "silu" && gate != "sigmoid") {
    text.Unsupported("output_gate_type", "only sigmoid and silu are supported");
  }
  out.output_gate_silu = gate == "silu";
}

void ParseExperts(const JsonObject& text, ModelConfig& out) {
  out.num_experts = text.U32("num_experts", 1, kMaxExperts);
  out.experts_per_token = text.U32("num_experts_per_tok", 1, kMaxExperts);
  out.expert_size = text.U32("moe_intermediate_size", 1, kMaxExpertSize);
  out.shared_expert_size = text.U32("shared_expert_intermediate_size", 1, kMaxExpertSize);
  out.norm_topk_prob = text.BoolOr("norm_topk_prob", true);
  if (text.ok() && out.experts_per_token > out.num_experts) {
    text.Corrupt("num_experts_per_tok", "exceeds num_experts");
  }
}

void ParsePleLayers(const JsonObject& text, ModelConfig& out) {
  if (!text.Has("ple_layer_ids")) return;
  for (const json& entry : text.Array("ple_layer_ids")) {
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() < 1 ||
        entry.get<uint64_t>() > out.layers.size()) {
      return text.Corrupt("ple_layer_ids",
                          fmt::format("entries count layers from 1 to {}", out.layers.size()));
    }
    out.ple_layers.push_back(entry.get<uint32_t>() - 1);
  }
  if (out.ple_layers.size() > kMaxPleLayers) {
    return text.Corrupt("ple_layer_ids", fmt::format("has more than {} entries", kMaxPleLayers));
  }
  std::ranges::sort(out.ple_layers);
  if (std::ranges::adjacent_find(out.ple_layers) != out.ple_layers.end()) {
    text.Corrupt("ple_layer_ids", "names a layer twice");
  }
}

void ParseNgrams(const JsonObject& text, ModelConfig& out) {
  ParsePleLayers(text, out);
  if (out.ple_layers.empty()) return;
  out.ple_embed_dim = text.U32("ple_embed_dim", 8, 1u << 20);
  out.ple_conv_kernel = text.U32Or("ple_conv_kernel_size", 1, kMaxConvKernel, 4);
  out.ngram_size = text.U32("ngram_size", 2, kMaxNgramSize);
  out.heads_per_ngram = text.U32("heads_per_ngram", 1, kMaxNgramHeads);
  out.ngram_vocab_size_base = text.Uint("ngram_vocab_size_base", 2, kMaxNgramVocab);
  out.ngram_vocab_divisor = text.Uint("make_ngram_vocab_size_divisible_by", 1, kMaxNgramDivisor);
  out.split_ngram_parts = text.U32Or("split_ngram_parts", 1, kMaxSplitParts, 512);
  out.hash_seed = text.UintOr("seed", 0, UINT64_MAX, 1234);
  if (!text.ok()) return;
  if (out.ngram_heads() > kMaxNgramHeads) {
    return text.Corrupt("heads_per_ngram", fmt::format("gives {} heads, more than {}",
                                                       out.ngram_heads(), kMaxNgramHeads));
  }
  if (out.ple_embed_dim % out.ngram_heads() != 0 || out.ngram_row_width() % 8 != 0) {
    return text.Corrupt("ple_embed_dim",
                        fmt::format("{} does not divide into {} rows of a multiple of 8 values",
                                    out.ple_embed_dim, out.ngram_heads()));
  }
}

void ParseDraft(const JsonObject& text, ModelConfig& out) {
  out.mtp_rope_theta = out.rope_theta;
  // Whether there is a draft head is decided by its tensors; one layer is what the format has.
  uint32_t layers = 1;
  if (text.Has("mtp")) {
    const JsonObject mtp = text.Object("mtp");
    out.mtp_rope_theta = mtp.NumberOr("rope_theta", 1, 1e12, out.rope_theta);
    layers = mtp.U32Or("num_hidden_layers", 0, kMaxDraftLayers, layers);
  }
  out.mtp_layers = text.U32Or("mtp_num_hidden_layers", 0, kMaxDraftLayers, layers);
  if (text.BoolOr("mtp_use_dedicated_embeddings", false)) {
    text.Unsupported("mtp_use_dedicated_embeddings", "true is not supported");
  }
}

std::optional<uint32_t> ParseTokenId(const JsonObject& object, const char* key, uint32_t vocab) {
  if (!object.Has(key)) return std::nullopt;
  const json& value = object.value().at(key);
  if (!value.is_array()) return object.U32(key, 0, vocab - 1);
  if (value.empty() || !value[0].is_number_unsigned() || value[0].get<uint64_t>() >= vocab) {
    object.Corrupt(key, fmt::format("must be an id below {} or a list of such", vocab));
    return std::nullopt;
  }
  return value[0].get<uint32_t>();
}

// Ids lie in the root or in text_config.
void ParseTokenIds(const JsonObject& root, const JsonObject& text, ModelConfig& out) {
  if (!text.ok()) return;
  auto id = [&](const char* key) {
    std::optional<uint32_t> inner = ParseTokenId(text, key, out.vocab_size);
    return inner ? inner : ParseTokenId(root, key, out.vocab_size);
  };
  std::optional<uint32_t> eos = id("eos_token_id");
  if (!eos && !out.ple_layers.empty()) {
    text.Corrupt("eos_token_id", "missing; the n-gram memory needs it");
  }
  out.eos_token_id = eos.value_or(0);
  out.bos_token_id = id("bos_token_id");
  out.image_token_id = id("image_token_id");
  out.video_token_id = id("video_token_id");
  out.vision_start_token_id = id("vision_start_token_id");
  out.vision_end_token_id = id("vision_end_token_id");
}

void ParseText(const JsonObject& root, const JsonObject& text, ModelConfig& out) {
  for (const JsonObject* object : {&root, &text}) {
    if (object->BoolOr("tie_word_embeddings", false)) {
      object->Unsupported("tie_word_embeddings",
                          "true is not supported: a model of this "
                          "architecture has a head of its own");
    }
  }
  out.vocab_size = text.U32("vocab_size", 1, kMaxVocab);
  out.hidden_size = text.U32("hidden_size", 8, kMaxHidden);
  ParseLayers(text, out);
  out.rms_norm_eps = static_cast<float>(text.NumberOr("rms_norm_eps", 1e-12, 1e-1, 1e-6));
  out.max_position_embeddings = text.U32Or("max_position_embeddings", 1, kMaxContext, 262144);
  ParseAttention(text, out);
  ParseDeltaNet(text, out);
  ParseExperts(text, out);
  out.hc_count = text.U32("hc_count", 2, kMaxStreams);
  out.hc_lowrank = text.U32("hc_lowrank", 1, kMaxHidden);
  if (!text.ok()) return;  // what follows depends on the layers and the vocabulary
  ParseNgrams(text, out);
  ParseDraft(text, out);
  ParseTokenIds(root, text, out);
}

}  // namespace

Result<ModelConfig> ParseConfig(std::string_view text, std::string_view name) {
  SS_ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, name));
  Status status;
  const JsonObject root(document, std::string(name), &status);
  SS_RETURN_IF_ERROR(std::move(status));
  const std::string type = root.String("model_type");
  if (root.ok() && type != "qwen4_exp" && type != "qwen4_exp_text") {
    root.Unsupported("model_type", fmt::format("\"{}\" is not supported; this program runs "
                                               "qwen4_exp (Qwen3.8-Flash-Next) models",
                                               type.substr(0, 100)));
  }
  ModelConfig out;
  if (root.ok()) {
    const bool flat = type == "qwen4_exp_text" && !root.Has("text_config");
    ParseText(root, flat ? root : root.Object("text_config"), out);
  }
  if (root.ok()) ParseVision(root, out);
  if (root.ok()) ParseQuantization(root, out);
  SS_RETURN_IF_ERROR(std::move(status));
  return out;
}

}  // namespace slotstream::checkpoint
