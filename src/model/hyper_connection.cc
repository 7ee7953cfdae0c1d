#include "model/hyper_connection.h"

#include "kernels/scalar_math.h"

namespace slotstream::model {
namespace {

using checkpoint::ModelConfig;

struct Buffers {
  Buffers(Arena& arena, const ModelConfig& config, size_t rows)
      : normed{arena.Take(rows * config.hc_width()), config.hc_width()},
        low{arena.Take(rows * config.hc_lowrank), config.hc_lowrank},
        gate{arena.Take(rows * config.hc_width()), config.hc_width()} {}
  MutableRows normed;  // [rows, N*H]
  MutableRows low;     // [rows, L]
  MutableRows gate;    // [rows, N*H]
};

}  // namespace

size_t HyperConnectionScratch(const ModelConfig& config, size_t rows) {
  Arena counter;
  Buffers(counter, config, rows);
  return counter.used();
}

void NormStreams(const kernels::KernelTable& kernels, const ModelConfig& config, const float* in,
                 const float* weight, float* out) {
  for (size_t s = 0; s < config.hc_count; ++s) {
    const size_t at = s * config.hidden_size;
    kernels.rms_norm(in + at, weight + at, config.hidden_size, config.rms_norm_eps, out + at);
  }
}

void ReadStreams(Compute& compute, const ModelConfig& config, const HyperConnectionWeights& weights,
                 ConstRows residual, size_t rows, MutableRows x, MutableRows a, Arena arena) {
  const kernels::KernelTable& kernels = compute.kernels();
  const Buffers buffers(arena, config, rows);
  const float per_stream = 1.0f / static_cast<float>(config.hc_count);

  compute.ForRows(rows, [&](size_t r) {
    NormStreams(kernels, config, residual.row(r), weights.norm, buffers.normed.row(r));
  });
  const bool inject = weights.inject.data != nullptr;
  if (inject) {
    compute.Run(buffers.normed, config.hc_width(), rows,
                {{weights.down, buffers.low}, {weights.inject, a}});
  } else {
    compute.Run(buffers.normed, config.hc_width(), rows, {{weights.down, buffers.low}});
  }
  compute.ForRows(
      rows, [&](size_t r) { kernels.silu(buffers.low.row(r), config.hc_lowrank, per_stream); });
  compute.Run(buffers.low, config.hc_lowrank, rows, {{weights.up, buffers.gate}});
  compute.ForRows(rows, [&](size_t r) {
    kernels.hc_mix(buffers.gate.row(r), buffers.normed.row(r), config.hc_count, config.hidden_size,
                   x.row(r));
    if (!inject) return;
    for (size_t s = 0; s < config.hc_count; ++s) {
      a.row(r)[s] = 2.0f * kernels::Sigmoid(a.row(r)[s] * per_stream);
    }
  });
}

void WriteStreams(Compute& compute, const ModelConfig& config, ConstRows y, ConstRows a,
                  size_t rows, MutableRows residual) {
  compute.ForRows(rows, [&](size_t r) {
    for (size_t s = 0; s < config.hc_count; ++s) {
      compute.kernels().axpy(a.row(r)[s], y.row(r), config.hidden_size,
                             residual.row(r) + s * config.hidden_size);
    }
  });
}

}  // namespace slotstream::model
