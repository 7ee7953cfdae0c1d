// One function per kernel that calls it on random shapes and data and returns what it wrote. Used
// to compare instruction sets with the scalar definition, and all of them with recorded hashes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels/prepared_rows.h"
#include "kernels/test_data.h"

namespace slotstream::kernels {

using Floats = std::vector<float>;

inline Floats Checked(const Output& output) {
  EXPECT_TRUE(output.GuardsSurvive());
  return output.Values();
}

inline Floats operator+(Floats a, const Floats& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline size_t AnyLength(Random& random) {
  return random.Below(4) == 0 ? 16 * random.Between(1, 16) : random.Between(1, 150);
}

inline PanelShape RandomShape(Random& random) {
  constexpr uint32_t kGroups[] = {64, 32, 128, 64, 8, 40, 192};
  const uint32_t group = kGroups[random.Below(std::size(kGroups))];
  const auto n = static_cast<uint32_t>(random.Between(1, 200));
  return {n, group * static_cast<uint32_t>(random.Between(1, 4)), group};
}

// The bytes of a prepared row, each as a float.
template <ComputeMode kMode>
Floats RunPrepare(const KernelTable& table, Random& random, Data data) {
  const PanelShape shape = RandomShape(random);
  const Input x(random, shape.k, data);
  const Prepared prepared(table.panel(kMode), kMode, {x.data(), shape.k}, shape, 1);
  const size_t used = kMode == ComputeMode::kExact
                          ? (shape.k + shape.groups()) * sizeof(float)
                          : TermsOf(kMode) * shape.k + shape.groups() * sizeof(GroupSum);
  Floats bytes;
  for (std::byte byte : prepared.Terms(0, used)) {
    bytes.push_back(static_cast<float>(std::to_integer<int>(byte)));
  }
  return bytes;
}

template <ComputeMode kMode>
Floats RunPanelProduct(const KernelTable& table, Random& random, Data data) {
  const PanelShape shape = RandomShape(random);
  const size_t rows = random.Below(16) == 0 ? random.Between(70, 150) : random.Between(1, 14);
  const PanelMatrix matrix(random, shape, data);
  const size_t x_stride = shape.k + random.Below(8);
  const size_t y_stride = shape.n + random.Below(20);
  const Input x(random, (rows - 1) * x_stride + shape.k, data);
  Output y(random, (rows - 1) * y_stride + shape.n);
  const auto first = static_cast<uint32_t>(random.Below(shape.panels()));
  const auto last = static_cast<uint32_t>(random.Between(first, shape.panels()));
  const Prepared prepared(table.panel(kMode), kMode, {x.data(), x_stride}, shape, rows);
  table.panel(kMode).product(matrix.panels(), shape, first, last, prepared.rows(), rows,
                             {y.data(), y_stride});
  return Checked(y);
}

inline Floats RunBf16Product(const KernelTable& table, Random& random, Data data) {
  const size_t n = random.Between(1, 80);
  const size_t k = AnyLength(random);
  const size_t rows = random.Between(1, 10);
  std::vector<uint16_t> w(n * k);
  for (uint16_t& weight : w) weight = FloatToBf16(random.Value(data));
  const size_t x_stride = k + random.Below(5);
  const size_t y_stride = n + random.Below(5);
  const Input x(random, (rows - 1) * x_stride + k, data);
  Output y(random, (rows - 1) * y_stride + n);
  const size_t first = random.Below(n);
  const size_t last = random.Between(first, n);
  table.bf16_product(w.data(), k, first, last, {x.data(), x_stride}, rows, {y.data(), y_stride});
  return Checked(y);
}

inline Floats RunDequantizeRow(const KernelTable& table, Random& random, Data data) {
  const size_t group = 8 * random.Between(1, 16);
  const size_t width = group * random.Between(1, 5);
  const size_t offset = random.Below(16);
  std::vector<std::byte> row(offset + width / 2 + width / group * 4);
  for (std::byte& byte : row) byte = static_cast<std::byte>(random.Bits());
  for (size_t i = 0; i < width / group * 2; ++i) {
    const uint16_t bits = FloatToBf16(random.Value(data));
    std::memcpy(row.data() + offset + width / 2 + i * 2, &bits, 2);
  }
  Output out(random, width);
  table.dequantize_row(row.data() + offset, width, group, out.data());
  return Checked(out);
}

inline Floats RunDot(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input a(random, n, data);
  const Input b(random, n, data);
  return {table.dot(a.data(), b.data(), n)};
}

inline Floats RunRmsNorm(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input weight(random, n, data);
  const Input x(random, n, data);
  Output y(random, n);
  Output in_place(random, n, data);
  table.rms_norm(x.data(), weight.data(), n, 1e-6f, y.data());
  table.rms_norm(in_place.data(), weight.data(), n, 1e-6f, in_place.data());
  return Checked(y) + Checked(in_place);
}

inline Floats RunL2Norm(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  Output x(random, n, data);
  table.l2_norm(x.data(), n, 1e-6f, 0.088f);
  return Checked(x);
}

inline Floats RunAdd(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input x(random, n, data);
  Output y(random, n, data);
  table.add(x.data(), n, y.data());
  return Checked(y);
}

inline Floats RunAxpy(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input x(random, n, data);
  Output y(random, n, data);
  table.axpy(random.Value(data), x.data(), n, y.data());
  return Checked(y);
}

inline Floats RunScale(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input x(random, n, data);
  Output y(random, n);
  Output in_place(random, n, data);
  table.scale(random.Value(data), x.data(), n, y.data());
  table.scale(0.3f, in_place.data(), n, in_place.data());
  return Checked(y) + Checked(in_place);
}

inline Floats RunSilu(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  Output x(random, n, data);
  table.silu(x.data(), n, 8 * random.Ordinary());
  return Checked(x);
}

inline Floats RunSiluMul(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input gate(random, n, data);
  const Input up(random, n, data);
  Output out(random, n);
  Output gate_in_place(random, n, data);
  Output up_in_place(random, n, data);
  table.silu_mul(gate.data(), up.data(), n, out.data());
  table.silu_mul(gate_in_place.data(), up.data(), n, gate_in_place.data());
  table.silu_mul(gate.data(), up_in_place.data(), n, up_in_place.data());
  return Checked(out) + Checked(gate_in_place) + Checked(up_in_place);
}

inline Floats RunSigmoidMul(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input gate(random, n, data);
  Output x(random, n, data);
  table.sigmoid_mul(x.data(), gate.data(), n);
  return Checked(x);
}

inline Floats RunExp(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  Output x(random, n, data);
  table.exp(x.data(), n);
  return Checked(x);
}

inline Floats RunSoftmax(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  Output x(random, n, data);
  table.softmax(x.data(), n);
  return Checked(x);
}

inline Floats RunHcMix(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const size_t streams = random.Between(1, 5);
  const Input gate(random, streams * n, data);
  const Input normed(random, streams * n, data);
  Output x(random, n);
  table.hc_mix(gate.data(), normed.data(), streams, n, x.data());
  return Checked(x);
}

inline Floats RunConvSilu(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const size_t kernel = random.Between(1, 5);
  const Input weight(random, kernel * n, data);
  std::vector<Input> inputs;
  for (size_t j = 0; j < kernel; ++j) inputs.emplace_back(random, n, data);
  std::vector<const float*> taps;
  for (const Input& input : inputs) taps.push_back(input.data());
  Output out(random, n);
  table.conv_silu(taps.data(), weight.data(), kernel, n, out.data());
  return Checked(out);
}

inline Floats RunDeltaGates(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  std::vector<float> wide_a(n);  // reaches both sides of the softplus threshold
  for (float& a : wide_a) a = 15 * random.Value(data);
  const Input b(random, n, data);
  const Input neg_a(random, n, data);
  const Input dt_bias(random, n, data);
  Output decay(random, n);
  Output beta(random, n);
  table.delta_gates(wide_a.data(), b.data(), neg_a.data(), dt_bias.data(), n, decay.data(),
                    beta.data());
  return Checked(decay) + Checked(beta);
}

inline Floats RunDeltaRule(const KernelTable& table, Random& random, Data data) {
  const size_t key_dim = random.Between(1, 40);
  const size_t value_dim = AnyLength(random);
  const size_t tokens = random.Between(1, 3);
  const size_t pad = random.Below(4);
  const Input query(random, tokens * (key_dim + pad), data);
  const Input key(random, tokens * (key_dim + pad), data);
  const Input value(random, tokens * (value_dim + pad), data);
  const Input decay(random, tokens * 3, data);
  const Input beta(random, tokens * 2, data);
  Output state(random, key_dim * value_dim, data);
  Output output(random, tokens * (value_dim + pad));
  table.delta_rule({.state = state.data(),
                    .key_dim = key_dim,
                    .value_dim = value_dim,
                    .tokens = tokens,
                    .query = {query.data(), key_dim + pad},
                    .key = {key.data(), key_dim + pad},
                    .value = {value.data(), value_dim + pad},
                    .decay = {decay.data(), 3},
                    .beta = {beta.data(), 2},
                    .output = {output.data(), value_dim + pad}});
  return Checked(state) + Checked(output);
}

inline Floats RunGatedRmsNorm(const KernelTable& table, Random& random, Data data) {
  const size_t n = AnyLength(random);
  const Input weight(random, n, data);
  const Input gate(random, n, data);
  Output sigmoid(random, n, data);
  Output silu(random, n, data);
  table.gated_rms_norm(sigmoid.data(), weight.data(), gate.data(), n, 1e-6f, false);
  table.gated_rms_norm(silu.data(), weight.data(), gate.data(), n, 1e-6f, true);
  return Checked(sigmoid) + Checked(silu);
}

inline Floats RunRope(const KernelTable& table, Random& random, Data data) {
  const size_t half = AnyLength(random);
  const Input cos(random, half, data);
  const Input sin(random, half, data);
  Output x(random, 2 * half, data);
  table.rope(x.data(), cos.data(), sin.data(), half);
  return Checked(x);
}

inline Floats RunIndexScores(const KernelTable& table, Random& random, Data data) {
  const size_t heads = random.Between(1, 9);
  const size_t dim = AnyLength(random);
  const size_t count = random.Between(1, 20);
  const Input query(random, heads * dim, data);
  const Input keys(random, count * dim, data);
  Output scores(random, count);
  table.index_scores(query.data(), heads, dim, keys.data(), count, 0.0883883461f, scores.data());
  return Checked(scores);
}

inline Floats RunAttention(const KernelTable& table, Random& random, Data data) {
  const size_t heads = random.Between(1, 13);
  const size_t dim = AnyLength(random);
  const size_t count = random.Between(1, 40);
  std::vector<Input> rows;
  for (size_t t = 0; t < 2 * count; ++t) rows.emplace_back(random, dim, data);
  std::vector<const float*> keys;
  std::vector<const float*> values;
  for (size_t t = 0; t < count; ++t) {
    keys.push_back(rows[2 * t].data());
    values.push_back(rows[2 * t + 1].data());
  }
  const size_t pad = random.Below(9);
  const Input query(random, heads * (dim + pad), data);
  Output scores(random, heads * (count + 1));
  Output output(random, heads * (dim + pad));
  table.attention({.query = query.data(),
                   .query_stride = dim + pad,
                   .heads = heads,
                   .dim = dim,
                   .keys = keys.data(),
                   .values = values.data(),
                   .count = count,
                   .scale = 0.0625f,
                   .scores = scores.data(),
                   .output = output.data(),
                   .output_stride = dim + pad});
  EXPECT_TRUE(scores.GuardsSurvive());
  return Checked(output);
}

struct KernelRun {
  std::string_view name;
  Floats (*run)(const KernelTable& table, Random& random, Data data);
};

inline constexpr KernelRun kKernelRuns[] = {
    {"prepare_exact", RunPrepare<ComputeMode::kExact>},
    {"prepare_int8", RunPrepare<ComputeMode::kInt8>},
    {"prepare_int15", RunPrepare<ComputeMode::kInt15>},
    {"panel_product_exact", RunPanelProduct<ComputeMode::kExact>},
    {"panel_product_int8", RunPanelProduct<ComputeMode::kInt8>},
    {"panel_product_int15", RunPanelProduct<ComputeMode::kInt15>},
    {"bf16_product", RunBf16Product},
    {"dequantize_row", RunDequantizeRow},
    {"dot", RunDot},
    {"rms_norm", RunRmsNorm},
    {"l2_norm", RunL2Norm},
    {"add", RunAdd},
    {"axpy", RunAxpy},
    {"scale", RunScale},
    {"silu", RunSilu},
    {"silu_mul", RunSiluMul},
    {"sigmoid_mul", RunSigmoidMul},
    {"exp", RunExp},
    {"softmax", RunSoftmax},
    {"hc_mix", RunHcMix},
    {"conv_silu", RunConvSilu},
    {"delta_gates", RunDeltaGates},
    {"delta_rule", RunDeltaRule},
    {"gated_rms_norm", RunGatedRmsNorm},
    {"rope", RunRope},
    {"index_scores", RunIndexScores},
    {"attention", RunAttention},
};

}  // namespace slotstream::kernels
