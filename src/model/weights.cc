#include "model/weights.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "kernels/scalar_math.h"

namespace slotstream::model {
namespace {

using checkpoint::LayerKind;
using checkpoint::ModelConfig;
using checkpoint::ResidentPart;

// Looks tensors up under a prefix and remembers the first failure, so that the binding below reads
// as a list of names.
class Binder {
 public:
  Binder(const ResidentPart& part, std::string prefix) : part_(part), prefix_(std::move(prefix)) {}

  void Bind(PanelMatrix& out, std::string_view name) { Take(out, part_.panels(Full(name))); }
  void Bind(Bf16Matrix& out, std::string_view name) { Take(out, part_.bf16(Full(name))); }
  void Bind(const float*& out, std::string_view name) { Take(out, part_.floats(Full(name))); }
  void Bind(checkpoint::RowTable& out, std::string_view name) { Take(out, part_.rows(Full(name))); }

  void Bind(HyperConnectionWeights& out, std::string_view site, bool with_inject) {
    Bind(out.norm, fmt::format("{}.hc_norm", site));
    Bind(out.down, fmt::format("{}.input_mix_weight_down", site));
    Bind(out.up, fmt::format("{}.input_mix_weight_up", site));
    if (with_inject) Bind(out.inject, fmt::format("{}.block_inject_weight", site));
  }

  Status status() const { return status_; }

 private:
  std::string Full(std::string_view name) const { return fmt::format("{}{}", prefix_, name); }

  template <typename T>
  void Take(T& out, Result<T> found) {
    if (found) {
      out = std::move(*found);
    } else if (status_) {
      status_ = std::unexpected(std::move(found).error());
    }
  }

  const ResidentPart& part_;
  std::string prefix_;
  Status status_;
};

Status BindDeltaNet(Binder& binder, const ModelConfig& config, DeltaNetWeights& out) {
  binder.Bind(out.qkv, "linear_attn.in_proj_qkv");
  binder.Bind(out.z, "linear_attn.in_proj_z");
  binder.Bind(out.a, "linear_attn.in_proj_a");
  binder.Bind(out.b, "linear_attn.in_proj_b");
  binder.Bind(out.out, "linear_attn.out_proj");
  binder.Bind(out.conv, "linear_attn.conv1d");
  binder.Bind(out.dt_bias, "linear_attn.dt_bias");
  binder.Bind(out.norm, "linear_attn.norm");
  const float* a_log = nullptr;
  binder.Bind(a_log, "linear_attn.A_log");
  SS_RETURN_IF_ERROR(binder.status());
  for (uint32_t head = 0; head < config.linear_value_heads; ++head) {
    out.neg_a.push_back(-kernels::Exp(a_log[head]));
  }
  return {};
}

void BindAttention(Binder& binder, AttentionWeights& out) {
  binder.Bind(out.q, "self_attn.q_proj");
  binder.Bind(out.k, "self_attn.k_proj");
  binder.Bind(out.v, "self_attn.v_proj");
  binder.Bind(out.o, "self_attn.o_proj");
  binder.Bind(out.q_norm, "self_attn.q_norm");
  binder.Bind(out.k_norm, "self_attn.k_norm");
  binder.Bind(out.index, "self_attn.indexer.index_qk_proj");
  binder.Bind(out.index_q_norm, "self_attn.indexer.q_layernorm");
  binder.Bind(out.index_k_norm, "self_attn.indexer.k_layernorm");
}

void BindMoe(Binder& binder, MoeWeights& out) {
  binder.Bind(out.router, "mlp.gate");
  binder.Bind(out.shared_gate, "mlp.shared_expert.gate_proj");
  binder.Bind(out.shared_up, "mlp.shared_expert.up_proj");
  binder.Bind(out.shared_down, "mlp.shared_expert.down_proj");
  binder.Bind(out.shared_weight, "mlp.shared_expert_gate");
}

void BindNgram(Binder& binder, NgramWeights& out) {
  binder.Bind(out.key, "ple.key_proj");
  binder.Bind(out.value, "ple.value_proj");
  binder.Bind(out.norm_key, "ple.norm_key");
  binder.Bind(out.norm_query, "ple.norm_query");
  binder.Bind(out.norm_conv, "ple.norm_conv");
  binder.Bind(out.conv, "ple.conv1d");
}

}  // namespace

Result<Weights> BindWeights(const ModelConfig& config, const ResidentPart& trunk) {
  Weights weights;
  Binder top(trunk, "");
  top.Bind(weights.embed, "embed_tokens");
  top.Bind(weights.lm_head, "lm_head");
  top.Bind(weights.final_mixer, "hyper_connection_mixer", /*with_inject=*/false);
  SS_RETURN_IF_ERROR(top.status());

  for (uint32_t l = 0; l < config.num_layers(); ++l) {
    LayerWeights& layer = weights.layers.emplace_back();
    layer.kind = config.layers[l];
    Binder binder(trunk, fmt::format("layers.{}.", l));
    binder.Bind(layer.attention_site, "attn_hyper_connection", /*with_inject=*/true);
    binder.Bind(layer.mlp_site, "mlp_hyper_connection", /*with_inject=*/true);
    if (layer.kind == LayerKind::kLinearAttention) {
      layer.mixer = weights.delta_nets.size();
      SS_RETURN_IF_ERROR(BindDeltaNet(binder, config, weights.delta_nets.emplace_back()));
    } else {
      layer.mixer = weights.attentions.size();
      BindAttention(binder, weights.attentions.emplace_back());
    }
    BindMoe(binder, layer.moe);
    SS_RETURN_IF_ERROR(binder.status());
  }
  for (size_t i = 0; i < config.ple_layers.size(); ++i) {
    Binder binder(trunk, fmt::format("layers.{}.", config.ple_layers[i]));
    NgramWeights& ngram = weights.ngrams.emplace_back();
    BindNgram(binder, ngram);
    SS_RETURN_IF_ERROR(binder.status());
    ngram.hash = checkpoint::MakeNgramHash(config, i);
  }
  return weights;
}

}  // namespace slotstream::model
