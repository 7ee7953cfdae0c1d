// The arithmetic of a token, as one table of functions per instruction set.
//
// Promise P1 lives here: every function is defined down to the order of its fused operations, so
// all instruction sets give the same bits, for any number of rows. The scalar version
// (scalar_kernels.cc) is the definition; the others are equal to it bit for bit.
//
// Vocabulary used below, all in float32:
//   fma(a, b, c)   a*b + c with one rounding.
//   Sum16(v)       16 partial sums, element i to partial i mod 16 in rising i, all starting at +0;
//                  then p[j] += p[j+h] for j < h, with h = 8, 4, 2, 1; the result is p[0].
//   Dot16(a, b)    the same with p = fma(a[i], b[i], p).
//   Exp, Log1p, Sigmoid, Silu   the polynomials of scalar_math.h.
// Square root and division are IEEE and correctly rounded everywhere.
//
// Threads: functions are pure and touch only their arguments; callers split outputs, heads or rows
// among threads, never the inputs of one sum. Pointers need no alignment beyond their type's.
// Lengths may be any positive number unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "base/result.h"
#include "kernels/panel_kernels.h"
#include "kernels/rows.h"

namespace slotstream::kernels {

// One step of the delta rule for one value head; see KernelTable::delta_rule.
struct DeltaRuleArgs {
  float* state;  // [key_dim, value_dim] row-major, updated
  size_t key_dim;
  size_t value_dim;
  size_t tokens;
  ConstRows query;     // [tokens, key_dim], normalised and scaled
  ConstRows key;       // [tokens, key_dim], normalised
  ConstRows value;     // [tokens, value_dim]
  ConstRows decay;     // [tokens, 1], e^g
  ConstRows beta;      // [tokens, 1]
  MutableRows output;  // [tokens, value_dim]
};

// Attention of the query heads that share one key/value head, for one token; see
// KernelTable::attention.
struct AttentionArgs {
  const float* query;  // head h at query + h * query_stride
  size_t query_stride;
  size_t heads;
  size_t dim;
  const float* const* keys;    // [count] pointers to dim floats, in position order
  const float* const* values;  // [count]
  size_t count;                // at least 1
  float scale;                 // 1 / sqrt(dim)
  float* scores;               // scratch [heads, count + 1]
  float* output;               // head h at output + h * output_stride
  size_t output_stride;
};

struct KernelTable {
  std::string_view name;  // see dispatch.cc

  // --- products -------------------------------------------------------------------------------

  // With 4-bit panels, by compute mode.
  const PanelKernels* panels[std::size(kComputeModes)];
  const PanelKernels& panel(ComputeMode mode) const { return *panels[static_cast<size_t>(mode)]; }

  // y[r][o] = Dot16(w[o], x[r]) for o in [first, last); w is bf16, row-major [n, k].
  void (*bf16_product)(const uint16_t* w, size_t k, size_t first, size_t last, ConstRows x,
                       size_t rows, MutableRows y);

  // out[i] = fma(scale, q_i, bias) of one row stored as width/8 u32 words, width/group bf16 scales,
  // width/group bf16 biases.
  void (*dequantize_row)(const std::byte* row, size_t width, size_t group, float* out);

  // --- vectors --------------------------------------------------------------------------------

  float (*dot)(const float* a, const float* b, size_t n);  // Dot16

  // y = (x * (1 / sqrt(Dot16(x, x) / n + eps))) * weight. y may be x.
  void (*rms_norm)(const float* x, const float* weight, size_t n, float eps, float* y);

  // x = x * ((1 / sqrt(Dot16(x, x) + eps)) * scale), in place.
  void (*l2_norm)(float* x, size_t n, float eps, float scale);

  // y = y + x.
  void (*add)(const float* x, size_t n, float* y);
  // y = fma(a, x, y).
  void (*axpy)(float a, const float* x, size_t n, float* y);
  // y = a * x.
  void (*scale)(float a, const float* x, size_t n, float* y);

  // x = Silu(x * scale), in place.
  void (*silu)(float* x, size_t n, float scale);
  // out = Silu(gate) * up. out may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, size_t n, float* out);
  // x = x * Sigmoid(gate), in place.
  void (*sigmoid_mul)(float* x, const float* gate, size_t n);

  // x = Exp(x), in place.
  void (*exp)(float* x, size_t n);
  // x = e / Sum16(e) with e = Exp(x - max x), in place.
  void (*softmax)(float* x, size_t n);

  // --- pieces of layers -----------------------------------------------------------------------

  // Hyper-connection mix: x[i] = acc * (1 / streams), acc = fma(Sigmoid(gate[s][i]), normed[s][i],
  // acc) for s rising from 0. gate and normed are [streams, n].
  void (*hc_mix)(const float* gate, const float* normed, size_t streams, size_t n, float* x);

  // Depthwise causal convolution and SiLU: out[c] = Silu(acc), acc = fma(weight[j][c], taps[j][c],
  // acc) for j rising from 0, acc = 0 at the start. weight is [taps, n].
  void (*conv_silu)(const float* const* taps, const float* weight, size_t kernel, size_t n,
                    float* out);

  // decay = Exp(neg_a * softplus(a + dt_bias)), beta = Sigmoid(b), elementwise over n heads, where
  // softplus(y) = y > 20 ? y : Log1p(Exp(y)). neg_a = -exp(A_log).
  void (*delta_gates)(const float* a, const float* b, const float* neg_a, const float* dt_bias,
                      size_t n, float* decay, float* beta);

  // Gated delta rule, token by token. Per token and value column j:
  //   acc = 0; for i rising: S[i][j] = decay * S[i][j]; acc = fma(k[i], S[i][j], acc)
  //   d = beta * (v[j] - acc); out = 0
  //   for i rising: S[i][j] = fma(k[i], d, S[i][j]); out = fma(q[i], S[i][j], out)
  void (*delta_rule)(const DeltaRuleArgs& args);

  // x = (x * (1 / sqrt(Dot16(x, x) / n + eps))) * weight * Sigmoid(gate), in place, products from
  // left to right; with silu_gate the last factor is Silu(gate).
  void (*gated_rms_norm)(float* x, const float* weight, const float* gate, size_t n, float eps,
                         bool silu_gate);

  // Rotary embedding, half split, in place over x[0, 2 half):
  //   x[i] = fma(x[i], cos[i], -(x[i+half] * sin[i]))
  //   x[i+half] = fma(x[i+half], cos[i], x[i] * sin[i])      (with the old x[i])
  void (*rope)(float* x, const float* cos, const float* sin, size_t half);

  // scores[b] = scale * s, s = s + max(Dot16(query[h], keys[b]), 0) for h rising, s = 0 at the
  // start. query is [heads, dim], keys [count, dim].
  void (*index_scores)(const float* query, size_t heads, size_t dim, const float* keys,
                       size_t count, float scale, float* scores);

  // Per head: s_t = Dot16(q, k_t) * scale; p_t = Exp(s_t - max s); o = fma(p_t, v_t, o) for t
  // rising; output = o * (1 / Sum16(p)).
  void (*attention)(const AttentionArgs& args);
};

// The tables that this build has and this processor can run, slowest first; never empty, the
// scalar one is always there.
std::span<const KernelTable* const> AvailableKernels();

// The table called `name`, or the fastest for "auto". kInvalidArgument lists the names there are.
Result<const KernelTable*> SelectKernels(std::string_view name);

}  // namespace slotstream::kernels
