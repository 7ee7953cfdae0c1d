// The panel product against plain double-precision products of the checkpoint's own words.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/prepared_rows.h"
#include "kernels/test_data.h"

namespace slotstream::kernels {
namespace {

// Weight (output, input) as MLX defines it, in double precision: exact, since the product of a bf16
// and 4 bits has 12 significant bits and the sum's exponents are near.
double Weight(const PanelMatrix& matrix, size_t output, size_t input) {
  const PanelShape& shape = matrix.shape;
  const uint32_t word = matrix.words[output * shape.k / 8 + input / 8];
  const size_t group = output * shape.groups() + input / shape.group;
  return double{Bf16ToFloat(matrix.scales[group])} * ((word >> (4 * (input % 8))) & 15) +
         double{Bf16ToFloat(matrix.biases[group])};
}

// Rounding error of y, u = 2^-24 per operation, to first order. In a group's accumulator each term
// passes at most `group` roundings; in the sum of the inputs at most group/16 + 4; then two per
// group that follows. So a term's contribution |scale q x| or |bias x| is off by at most
// (group + 2 groups) u of itself.
double Tolerance(const PanelMatrix& matrix, size_t output, const float* x) {
  const PanelShape& shape = matrix.shape;
  double magnitude = 0;
  for (size_t k = 0; k < shape.k; ++k) {
    const size_t group = output * shape.groups() + k / shape.group;
    const uint32_t word = matrix.words[output * shape.k / 8 + k / 8];
    const double scale = std::abs(Bf16ToFloat(matrix.scales[group]));
    const double bias = std::abs(Bf16ToFloat(matrix.biases[group]));
    magnitude += (scale * ((word >> (4 * (k % 8))) & 15) + bias) * std::abs(double{x[k]});
  }
  return magnitude * (shape.group + 2 * shape.groups()) * 0x1p-24;
}

// The activations that a mode's products see: x itself, or what its codes stand for.
std::vector<float> Seen(ComputeMode mode, const std::byte* row, const PanelShape& shape) {
  std::vector<float> x(shape.k);
  for (size_t i = 0; i < shape.k; ++i) {
    if (mode == ComputeMode::kExact) {
      x[i] = ExactRow(row, shape.k).x[i];
      continue;
    }
    const size_t terms = TermsOf(mode);
    const size_t g = i / shape.group;
    const size_t j = i % shape.group;
    const auto* codes = reinterpret_cast<const int8_t*>(row) + g * terms * shape.group + j / 8 * 8 +
                        j % 2 * 4 + j % 8 / 2;
    const int v = terms == 1 ? codes[0] : 256 * codes[0] + codes[shape.group];
    GroupSum sum;
    std::memcpy(&sum, row + terms * shape.k + g * sizeof sum, sizeof sum);
    x[i] = sum.unit * static_cast<float>(v);
  }
  return x;
}

// Integers are off by half a unit, and by a rounding of each of m / Q, Q / m and the products.
void ExpectNearInputs(ComputeMode mode, const float* x, const std::vector<float>& seen,
                      size_t group) {
  if (mode == ComputeMode::kExact) {
    EXPECT_EQ(std::vector<float>(x, x + seen.size()), seen);
    return;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    float m = 0;
    for (size_t j = 0; j < group; ++j) m = std::max(m, std::abs(x[i / group * group + j]));
    const float unit = m / static_cast<float>(LargestCode(TermsOf(mode)));
    ASSERT_NEAR(seen[i], x[i], unit / 2 + m * 0x1p-21f) << NameOf(mode) << ", input " << i;
  }
}

void ExpectNearDouble(const KernelTable& table, ComputeMode mode, Random& random,
                      const PanelShape& shape, size_t rows) {
  const PanelMatrix matrix(random, shape, Data::kOrdinary);
  const Input x(random, rows * shape.k, Data::kOrdinary);
  std::vector<float> y(rows * shape.n);
  const PanelKernels& kernels = table.panel(mode);
  const Prepared prepared(kernels, mode, {x.data(), shape.k}, shape, rows);
  kernels.product(matrix.panels(), shape, 0, shape.panels(), prepared.rows(), rows,
                  {y.data(), shape.n});
  for (size_t r = 0; r < rows; ++r) {
    const std::vector<std::byte> row = prepared.Terms(r, PreparedBytes(mode, shape.k, shape.group));
    const std::vector<float> seen = Seen(mode, row.data(), shape);
    ExpectNearInputs(mode, x.data() + r * shape.k, seen, shape.group);
    for (size_t o = 0; o < shape.n; ++o) {
      double exact = 0;
      for (size_t k = 0; k < shape.k; ++k) exact += Weight(matrix, o, k) * seen[k];
      ASSERT_NEAR(y[r * shape.n + o], exact, Tolerance(matrix, o, seen.data()))
          << table.name << ", " << NameOf(mode) << ", row " << r << ", output " << o;
    }
  }
}

TEST(PanelProductTest, AgreesWithDoublePrecision) {
  for (const KernelTable* table : AvailableKernels()) {
    for (ComputeMode mode : kComputeModes) {
      Random random(3);
      for (uint32_t group : {32u, 64u, 128u}) {
        // Last panels of 16, 32, 48 and 64 lanes, full and not.
        for (uint32_t n : {1u, 16u, 29u, 47u, 64u, 70u, 96u, 128u, 190u}) {
          for (size_t rows : {1, 2, 3, 7}) {
            ExpectNearDouble(*table, mode, random, {.n = n, .k = 2 * group, .group = group}, rows);
          }
        }
      }
      ExpectNearDouble(*table, mode, random, {.n = 80, .k = 2560, .group = 64}, 2);
    }
  }
}

// A row of the embedding is the same weights.
TEST(DequantizeRowTest, IsTheRoundedWeight) {
  constexpr uint32_t kWidth = 192;
  for (const KernelTable* table : AvailableKernels()) {
    for (uint32_t group : {32u, 64u}) {
      Random random(4);
      const PanelMatrix matrix(random, {.n = 1, .k = kWidth, .group = group}, Data::kOrdinary);
      std::vector<std::byte> row(kWidth / 2 + kWidth / group * 4);
      std::memcpy(row.data(), matrix.words.data(), kWidth / 2);
      std::memcpy(row.data() + kWidth / 2, matrix.scales.data(), kWidth / group * 2);
      std::memcpy(row.data() + kWidth / 2 + kWidth / group * 2, matrix.biases.data(),
                  kWidth / group * 2);
      std::vector<float> out(kWidth);
      table->dequantize_row(row.data(), kWidth, group, out.data());
      for (size_t i = 0; i < kWidth; ++i) {
        EXPECT_EQ(out[i], static_cast<float>(Weight(matrix, 0, i))) << table->name << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace slotstream::kernels
