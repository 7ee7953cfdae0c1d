// The definition of every kernel: what kernels.h says, in plain C++. The vector versions are tested
// against this file bit for bit, so it is written to be read, not to be fast.
#include <bit>
#include <cmath>

#include "base/bf16.h"
#include "kernels/kernel_tables.h"
#include "kernels/scalar_math.h"
#include "kernels/scalar_pieces.h"

namespace slotstream::kernels {
namespace {

float MaxOf(const float* x, size_t n) {
  float max = x[0];
  for (size_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

float InverseRms(const float* x, size_t n, float eps) {
  return 1.0f / std::sqrt(Dot16(x, x, n) / static_cast<float>(n) + eps);
}

void Bf16Product(const uint16_t* w, size_t k, size_t first, size_t last, ConstRows x, size_t rows,
                 MutableRows y) {
  for (size_t o = first; o < last; ++o) {
    for (size_t r = 0; r < rows; ++r) {
      Partials partials;
      for (size_t i = 0; i < k; ++i) {
        float& p = partials.p[i % 16];
        p = std::fma(Bf16ToFloat(w[o * k + i]), x.row(r)[i], p);
      }
      y.row(r)[o] = partials.Total();
    }
  }
}

void DequantizeRow(const std::byte* row, size_t width, size_t group, float* out) {
  const std::byte* scales = row + width / 2;
  const std::byte* biases = scales + width / group * 2;
  for (size_t i = 0; i < width; ++i) {
    out[i] = std::fma(LoadBf16(scales + i / group * 2),
                      static_cast<float>(Nibble(LoadWord(row + i / 8 * 4), i % 8)),
                      LoadBf16(biases + i / group * 2));
  }
}

void RmsNorm(const float* x, const float* weight, size_t n, float eps, float* y) {
  const float inverse = InverseRms(x, n, eps);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] * inverse) * weight[i];
}

void L2Norm(float* x, size_t n, float eps, float scale) {
  const float factor = (1.0f / std::sqrt(Dot16(x, x, n) + eps)) * scale;
  for (size_t i = 0; i < n; ++i) x[i] = x[i] * factor;
}

void Add(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
}

void Axpy(float a, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = std::fma(a, x[i], y[i]);
}

void Scale(float a, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = a * x[i];
}

void SiluScaled(float* x, size_t n, float scale) {
  for (size_t i = 0; i < n; ++i) x[i] = Silu(x[i] * scale);
}

void SiluMul(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = Silu(gate[i]) * up[i];
}

void SigmoidMul(float* x, const float* gate, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = x[i] * Sigmoid(gate[i]);
}

void ExpInPlace(float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = Exp(x[i]);
}

void Softmax(float* x, size_t n) {
  const float max = MaxOf(x, n);
  for (size_t i = 0; i < n; ++i) x[i] = Exp(x[i] - max);
  const float sum = Sum16(x, n);
  for (size_t i = 0; i < n; ++i) x[i] = x[i] / sum;
}

void HcMix(const float* gate, const float* normed, size_t streams, size_t n, float* x) {
  const float mean = 1.0f / static_cast<float>(streams);
  for (size_t i = 0; i < n; ++i) {
    float acc = 0;
    for (size_t s = 0; s < streams; ++s) {
      acc = std::fma(Sigmoid(gate[s * n + i]), normed[s * n + i], acc);
    }
    x[i] = acc * mean;
  }
}

void ConvSilu(const float* const* taps, const float* weight, size_t kernel, size_t n, float* out) {
  for (size_t c = 0; c < n; ++c) {
    float acc = 0;
    for (size_t j = 0; j < kernel; ++j) acc = std::fma(weight[j * n + c], taps[j][c], acc);
    out[c] = Silu(acc);
  }
}

void DeltaGates(const float* a, const float* b, const float* neg_a, const float* dt_bias, size_t n,
                float* decay, float* beta) {
  for (size_t i = 0; i < n; ++i) {
    const float y = a[i] + dt_bias[i];
    const float softplus = y > 20.0f ? y : Log1p(Exp(y));
    decay[i] = Exp(neg_a[i] * softplus);
    beta[i] = Sigmoid(b[i]);
  }
}

void DeltaRule(const DeltaRuleArgs& args) {
  for (size_t t = 0; t < args.tokens; ++t) {
    const float* q = args.query.row(t);
    const float* k = args.key.row(t);
    const float decay = args.decay.row(t)[0];
    for (size_t j = 0; j < args.value_dim; ++j) {
      float* column = args.state + j;
      float acc = 0;
      for (size_t i = 0; i < args.key_dim; ++i) {
        float& s = column[i * args.value_dim];
        s = decay * s;
        acc = std::fma(k[i], s, acc);
      }
      const float d = args.beta.row(t)[0] * (args.value.row(t)[j] - acc);
      float out = 0;
      for (size_t i = 0; i < args.key_dim; ++i) {
        float& s = column[i * args.value_dim];
        s = std::fma(k[i], d, s);
        out = std::fma(q[i], s, out);
      }
      args.output.row(t)[j] = out;
    }
  }
}

void GatedRmsNorm(float* x, const float* weight, const float* gate, size_t n, float eps,
                  bool silu_gate) {
  const float inverse = InverseRms(x, n, eps);
  for (size_t i = 0; i < n; ++i) {
    const float factor = silu_gate ? Silu(gate[i]) : Sigmoid(gate[i]);
    x[i] = x[i] * inverse * weight[i] * factor;
  }
}

void Rope(float* x, const float* cos, const float* sin, size_t half) {
  for (size_t i = 0; i < half; ++i) {
    const float first = x[i];
    const float second = x[i + half];
    x[i] = std::fma(first, cos[i], -(second * sin[i]));
    x[i + half] = std::fma(second, cos[i], first * sin[i]);
  }
}

void IndexScores(const float* query, size_t heads, size_t dim, const float* keys, size_t count,
                 float scale, float* scores) {
  for (size_t b = 0; b < count; ++b) {
    float sum = 0;
    for (size_t h = 0; h < heads; ++h) {
      const float dot = Dot16(query + h * dim, keys + b * dim, dim);
      sum = sum + (dot > 0 ? dot : 0.0f);
    }
    scores[b] = scale * sum;
  }
}

void Attention(const AttentionArgs& args) {
  for (size_t h = 0; h < args.heads; ++h) {
    const float* query = args.query + h * args.query_stride;
    float* output = args.output + h * args.output_stride;
    float* p = args.scores;
    for (size_t t = 0; t < args.count; ++t) {
      p[t] = Dot16(query, args.keys[t], args.dim) * args.scale;
    }
    const float max = MaxOf(p, args.count);
    for (size_t t = 0; t < args.count; ++t) p[t] = Exp(p[t] - max);
    const float inverse = 1.0f / Sum16(p, args.count);
    for (size_t i = 0; i < args.dim; ++i) {
      float o = 0;
      for (size_t t = 0; t < args.count; ++t) o = std::fma(p[t], args.values[t][i], o);
      output[i] = o * inverse;
    }
  }
}

}  // namespace

constinit const KernelTable kScalarKernels = {
    .name = "scalar",
    .panels = {&kScalarExact, &kScalarInt8, &kScalarInt15},
    .bf16_product = Bf16Product,
    .dequantize_row = DequantizeRow,
    .dot = Dot16,
    .rms_norm = RmsNorm,
    .l2_norm = L2Norm,
    .add = Add,
    .axpy = Axpy,
    .scale = Scale,
    .silu = SiluScaled,
    .silu_mul = SiluMul,
    .sigmoid_mul = SigmoidMul,
    .exp = ExpInPlace,
    .softmax = Softmax,
    .hc_mix = HcMix,
    .conv_silu = ConvSilu,
    .delta_gates = DeltaGates,
    .delta_rule = DeltaRule,
    .gated_rms_norm = GatedRmsNorm,
    .rope = Rope,
    .index_scores = IndexScores,
    .attention = Attention,
};

}  // namespace slotstream::kernels
