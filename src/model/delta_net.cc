#include "model/delta_net.h"

#include <algorithm>
#include <cmath>

#include "model/causal_conv.h"

namespace slotstream::model {
namespace {

using checkpoint::ModelConfig;

constexpr float kL2NormEps = 1e-6f;  // added to the sum of squares, not to its mean

struct Buffers {
  Buffers(Arena& arena, const ModelConfig& config, size_t rows)
      : qkv{arena.Take(rows * config.conv_dim()), config.conv_dim()},
        mixed{arena.Take(rows * config.conv_dim()), config.conv_dim()},
        z{arena.Take(rows * config.value_dim()), config.value_dim()},
        out{arena.Take(rows * config.value_dim()), config.value_dim()},
        a{arena.Take(rows * config.linear_value_heads), config.linear_value_heads},
        b{arena.Take(rows * config.linear_value_heads), config.linear_value_heads},
        decay{arena.Take(rows * config.linear_value_heads), config.linear_value_heads},
        beta{arena.Take(rows * config.linear_value_heads), config.linear_value_heads} {}
  MutableRows qkv;                // before the convolution
  MutableRows mixed;              // after it: q, k, v
  MutableRows z, out;             // [rows, value_dim]
  MutableRows a, b, decay, beta;  // [rows, value_heads]
};

}  // namespace

size_t DeltaNetScratch(const ModelConfig& config, size_t rows) {
  Arena counter;
  Buffers(counter, config, rows);
  return counter.used();
}

void RunDeltaNet(Compute& compute, const ModelConfig& config, const DeltaNetWeights& weights,
                 ConstRows x, size_t rows, state::LinearState& state,
                 Captures<state::LinearState> captures, MutableRows y, Arena arena) {
  const kernels::KernelTable& kernels = compute.kernels();
  const Buffers buffers(arena, config, rows);
  const size_t key_dim = config.linear_key_dim;
  const size_t value_dim = config.linear_value_dim;
  const size_t key_heads = config.linear_key_heads;
  const size_t value_heads = config.linear_value_heads;
  const size_t keys_at = key_heads * key_dim;
  const size_t values_at = 2 * keys_at;
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(key_dim));

  compute.Run(x, config.hidden_size, rows,
              {{weights.qkv, buffers.qkv},
               {weights.z, buffers.z},
               {weights.a, buffers.a},
               {weights.b, buffers.b}});
  const ConvShape conv{
      .kernel = config.linear_conv_kernel, .dilation = 1, .width = config.conv_dim()};
  for (const Capture<state::LinearState>& capture : captures) {
    AdvanceHistory(conv, buffers.qkv, capture.rows, state.conv, capture.into->conv);
  }
  CausalConvSilu(compute, conv, weights.conv, buffers.qkv, rows, state.conv, buffers.mixed);
  compute.ForRows(rows, [&](size_t r) {
    float* q = buffers.mixed.row(r);
    for (size_t h = 0; h < key_heads; ++h) {
      kernels.l2_norm(q + h * key_dim, key_dim, kL2NormEps, query_scale);
      kernels.l2_norm(q + keys_at + h * key_dim, key_dim, kL2NormEps, 1.0f);
    }
    kernels.delta_gates(buffers.a.row(r), buffers.b.row(r), weights.neg_a.data(), weights.dt_bias,
                        value_heads, buffers.decay.row(r), buffers.beta.row(r));
  });

  compute.threads().ParallelFor(value_heads, [&](size_t h) {
    const size_t key_head = h / (value_heads / key_heads);
    const size_t stride = buffers.mixed.stride;
    float* head = state.recurrent.data() + h * key_dim * value_dim;
    size_t first = 0;
    const auto advance_to = [&](size_t end) {
      const float* mixed = buffers.mixed.row(first);
      kernels.delta_rule({.state = head,
                          .key_dim = key_dim,
                          .value_dim = value_dim,
                          .tokens = end - first,
                          .query = {mixed + key_head * key_dim, stride},
                          .key = {mixed + keys_at + key_head * key_dim, stride},
                          .value = {mixed + values_at + h * value_dim, stride},
                          .decay = {buffers.decay.row(first) + h, buffers.decay.stride},
                          .beta = {buffers.beta.row(first) + h, buffers.beta.stride},
                          .output = {buffers.out.row(first) + h * value_dim, buffers.out.stride}});
      first = end;
    };
    for (const Capture<state::LinearState>& capture : captures) {
      advance_to(capture.rows);
      std::copy_n(head, key_dim * value_dim,
                  capture.into->recurrent.data() + h * key_dim * value_dim);
    }
    advance_to(rows);
  });

  compute.ForRows(rows, [&](size_t r) {
    for (size_t h = 0; h < value_heads; ++h) {
      kernels.gated_rms_norm(buffers.out.row(r) + h * value_dim, weights.norm,
                             buffers.z.row(r) + h * value_dim, value_dim, config.rms_norm_eps,
                             config.output_gate_silu);
    }
  });
  compute.Run(buffers.out, config.value_dim(), rows, {{weights.out, y}});
}

}  // namespace slotstream::model
