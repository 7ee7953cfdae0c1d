#include "model/ngram_memory.h"

#include <algorithm>
#include <cmath>

#include "kernels/scalar_math.h"
#include "model/causal_conv.h"
#include "model/hyper_connection.h"

namespace slotstream::model {
namespace {

using checkpoint::ModelConfig;

constexpr float kGateFloor = 1e-6f;  // under the square root

struct Buffers {
  Buffers(Arena& arena, const ModelConfig& config, size_t rows) {
    auto take = [&](size_t width) { return MutableRows{arena.Take(rows * width), width}; };
    embedding = take(config.ple_embed_dim);
    key = take(config.hc_width());
    value = take(config.hidden_size);
    query = take(config.hc_width());
    normed = take(config.hc_width());
    convolved = take(config.hc_width());
  }
  MutableRows embedding;  // e
  MutableRows key;        // then u
  MutableRows value;      // v
  MutableRows query;      // q
  MutableRows normed;     // un
  MutableRows convolved;
};

}  // namespace

size_t NgramMemoryScratch(const ModelConfig& config, size_t rows) {
  Arena counter;
  Buffers(counter, config, rows);
  return counter.used();
}

float NgramGate(float c) {
  if (c == 0.0f) return kernels::Sigmoid(0.0f);
  return kernels::Sigmoid(std::copysign(std::sqrt(std::max(std::fabs(c), kGateFloor)), c));
}

Status RunNgramMemory(Compute& compute, const ModelConfig& config, const NgramWeights& weights,
                      experts::NgramStore& store, size_t rows, state::NgramState& state,
                      Captures<state::NgramState> captures, MutableRows residual, Arena arena) {
  const kernels::KernelTable& kernels = compute.kernels();
  const Buffers buffers(arena, config, rows);
  const size_t heads = config.ngram_heads();
  const size_t hidden = config.hidden_size;
  const float inverse_root = 1.0f / std::sqrt(static_cast<float>(hidden));

  SS_RETURN_IF_ERROR(store.Finish());
  compute.ForRows(rows, [&](size_t r) {
    for (size_t h = 0; h < heads; ++h) {
      kernels.dequantize_row(store.Row(r * heads + h), store.format().width(),
                             store.format().group(),
                             buffers.embedding.row(r) + h * store.format().width());
    }
  });
  compute.Run(buffers.embedding, config.ple_embed_dim, rows,
              {{weights.key, buffers.key}, {weights.value, buffers.value}});
  compute.ForRows(rows, [&](size_t r) {
    float* key = buffers.key.row(r);
    NormStreams(kernels, config, key, weights.norm_key, key);
    NormStreams(kernels, config, residual.row(r), weights.norm_query, buffers.query.row(r));
    for (size_t s = 0; s < config.hc_count; ++s) {
      float* stream = key + s * hidden;
      const float c = kernels.dot(stream, buffers.query.row(r) + s * hidden, hidden) * inverse_root;
      kernels.scale(NgramGate(c), buffers.value.row(r), hidden, stream);
    }
    NormStreams(kernels, config, key, weights.norm_conv, buffers.normed.row(r));
  });
  const ConvShape conv{
      .kernel = config.ple_conv_kernel, .dilation = config.ngram_size, .width = config.hc_width()};
  for (const Capture<state::NgramState>& capture : captures) {
    AdvanceHistory(conv, buffers.normed, capture.rows, state.conv, capture.into->conv);
  }
  CausalConvSilu(compute, conv, weights.conv, buffers.normed, rows, state.conv, buffers.convolved);
  compute.ForRows(rows, [&](size_t r) {
    kernels.add(buffers.key.row(r), config.hc_width(), residual.row(r));
    kernels.add(buffers.convolved.row(r), config.hc_width(), residual.row(r));
  });
  return {};
}

}  // namespace slotstream::model
