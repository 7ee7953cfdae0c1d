// The resident weights by their role, as views into a loaded part.
#pragma once

#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"
#include "checkpoint/ngram_hash.h"
#include "checkpoint/resident.h"

namespace slotstream::model {

using checkpoint::Bf16Matrix;
using checkpoint::PanelMatrix;

// H hidden size, N streams, L low rank. Norm weights are float32 and complete (1 + w).
struct HyperConnectionWeights {
  const float* norm = nullptr;  // [N*H]
  PanelMatrix down;             // [L, N*H]
  PanelMatrix up;               // [N*H, L]
  Bf16Matrix inject;            // [N, N*H]; empty in the final mixer
};

struct DeltaNetWeights {
  PanelMatrix qkv;                 // [conv_dim, H]: query heads, key heads, value heads
  PanelMatrix z;                   // [value_dim, H]
  Bf16Matrix a, b;                 // [value_heads, H]
  PanelMatrix out;                 // [H, value_dim]
  const float* conv = nullptr;     // [kernel, conv_dim]
  std::vector<float> neg_a;        // [value_heads], -exp(A_log)
  const float* dt_bias = nullptr;  // [value_heads]
  const float* norm = nullptr;     // [value_head_dim], without the +1
};

struct AttentionWeights {
  PanelMatrix q;     // [heads * 2 * head_dim, H], per head: query, gate
  PanelMatrix k, v;  // [kv_heads * head_dim, H]
  PanelMatrix o;     // [H, heads * head_dim]
  Bf16Matrix index;  // [(indexer_heads + 1) * indexer_head_dim, H]: queries, then the key
  const float *q_norm = nullptr, *k_norm = nullptr;              // [head_dim]
  const float *index_q_norm = nullptr, *index_k_norm = nullptr;  // [indexer_head_dim]
};

struct MoeWeights {
  Bf16Matrix router;                   // [experts, H]
  PanelMatrix shared_gate, shared_up;  // [shared_expert_size, H]
  PanelMatrix shared_down;             // [H, shared_expert_size]
  Bf16Matrix shared_weight;            // [1, H]
};

struct NgramWeights {
  checkpoint::NgramHash hash;
  PanelMatrix key;    // [N*H, ple_embed_dim]
  PanelMatrix value;  // [H, ple_embed_dim]
  const float *norm_key = nullptr, *norm_query = nullptr, *norm_conv = nullptr;  // [N*H]
  const float* conv = nullptr;                                                   // [kernel, N*H]
};

struct LayerWeights {
  checkpoint::LayerKind kind;
  HyperConnectionWeights attention_site, mlp_site;
  size_t mixer = 0;  // index into Weights::delta_nets or Weights::attentions
  MoeWeights moe;
};

struct Weights {
  checkpoint::RowTable embed;  // [vocab, H]
  PanelMatrix lm_head;         // [vocab, H]
  HyperConnectionWeights final_mixer;
  std::vector<LayerWeights> layers;
  std::vector<DeltaNetWeights> delta_nets;
  std::vector<AttentionWeights> attentions;
  std::vector<NgramWeights> ngrams;  // per entry of config.ple_layers
};

// Binds the trunk's tensors. The part must outlive the result.
Result<Weights> BindWeights(const checkpoint::ModelConfig& config,
                            const checkpoint::ResidentPart& trunk);

}  // namespace slotstream::model
