// Promise P1, kernel by kernel: every instruction set gives the scalar definition's bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include "kernels/kernel_runs.h"

namespace slotstream::kernels {
namespace {

// Bits to compare: which NaN an operation makes is the one thing that processors differ in.
std::vector<uint32_t> Bits(const Floats& values) {
  std::vector<uint32_t> bits;
  for (float value : values) {
    bits.push_back(std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value));
  }
  return bits;
}

// The first difference, or empty.
std::string Difference(const Floats& expected, const Floats& actual) {
  const auto e = Bits(expected);
  const auto a = Bits(actual);
  if (e.size() != a.size()) return "sizes differ";
  for (size_t i = 0; i < e.size(); ++i) {
    if (e[i] != a[i]) {
      return fmt::format("value {} of {}: {} ({:08x}) instead of {} ({:08x})", i, e.size(),
                         actual[i], a[i], expected[i], e[i]);
    }
  }
  return "";
}

std::vector<const KernelTable*> AllKernels() {
  return {AvailableKernels().begin(), AvailableKernels().end()};
}

class EqualityTest : public testing::TestWithParam<KernelRun> {};

TEST_P(EqualityTest, EveryInstructionSetGivesTheScalarBits) {
  const KernelTable& scalar = *AvailableKernels().front();
  for (Data data : {Data::kOrdinary, Data::kWide, Data::kInfinite}) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Random random(seed);
      const Floats expected = GetParam().run(scalar, random, data);
      for (const KernelTable* table : AllKernels()) {
        Random again(seed);
        ASSERT_EQ(Difference(expected, GetParam().run(*table, again, data)), "")
            << table->name << ", data " << static_cast<int>(data) << ", seed " << seed;
      }
    }
  }
}

std::string NameOf(const testing::TestParamInfo<KernelRun>& info) {
  return std::string(info.param.name);
}

INSTANTIATE_TEST_SUITE_P(Kernels, EqualityTest, testing::ValuesIn(kKernelRuns), NameOf);

// Every row count up to beyond two tiles: a row's bits do not depend on its company.
TEST(RowCountTest, PanelProductOfARowIsTheSameInAnyCompany) {
  constexpr size_t kRows = 160;
  for (const KernelTable* table : AllKernels()) {
    for (ComputeMode mode : kComputeModes) {
      Random random(7);
      const PanelShape shape = {.n = 150, .k = 128, .group = 64};
      const PanelMatrix matrix(random, shape, Data::kOrdinary);
      const Input x(random, kRows * shape.k, Data::kOrdinary);
      const PanelKernels& kernels = table->panel(mode);
      const Prepared prepared(kernels, mode, {x.data(), shape.k}, shape, kRows);
      const auto product = [&](size_t first, size_t rows) {
        Floats y(rows * shape.n);
        kernels.product(matrix.panels(), shape, 0, shape.panels(),
                        {prepared.rows().row(first), prepared.rows().stride}, rows,
                        {y.data(), shape.n});
        return y;
      };
      Floats alone;
      for (size_t r = 0; r < kRows; ++r) alone = alone + product(r, 1);
      for (size_t rows = 1; rows <= kRows; rows = rows < 20 ? rows + 1 : rows + 35) {
        const Floats expected(alone.begin(), alone.begin() + rows * shape.n);
        ASSERT_EQ(Difference(expected, product(0, rows)), "")
            << table->name << ", " << NameOf(mode) << ", " << rows;
      }
    }
  }
}

TEST(RowCountTest, Bf16ProductOfARowIsTheSameInAnyCompany) {
  constexpr size_t kRows = 9;
  constexpr size_t kN = 37;
  constexpr size_t kK = 75;
  for (const KernelTable* table : AllKernels()) {
    Random random(8);
    std::vector<uint16_t> w(kN * kK);
    for (uint16_t& weight : w) weight = FloatToBf16(random.Ordinary());
    const Input x(random, kRows * kK, Data::kOrdinary);
    const auto product = [&](size_t first, size_t rows) {
      Floats y(rows * kN);
      table->bf16_product(w.data(), kK, 0, kN, {x.data() + first * kK, kK}, rows, {y.data(), kN});
      return y;
    };
    Floats alone;
    for (size_t r = 0; r < kRows; ++r) alone = alone + product(r, 1);
    for (size_t rows = 1; rows <= kRows; ++rows) {
      const Floats expected(alone.begin(), alone.begin() + rows * kN);
      ASSERT_EQ(Difference(expected, product(0, rows)), "") << table->name << ", " << rows;
    }
  }
}

// A split of a prompt must not change the recurrence.
TEST(RowCountTest, DeltaRuleTokenByTokenIsTheSameAsAllAtOnce) {
  constexpr size_t kDim = 24;
  constexpr size_t kTokens = 5;
  for (const KernelTable* table : AllKernels()) {
    Random random(9);
    const Input qkv(random, 3 * kTokens * kDim, Data::kOrdinary);
    const Input gates(random, 2 * kTokens, Data::kOrdinary);
    const auto run = [&](size_t step) {
      Floats state(kDim * kDim);
      Floats output(kTokens * kDim);
      for (size_t t = 0; t < kTokens; t += step) {
        const float* q = qkv.data() + t * kDim;
        table->delta_rule({.state = state.data(),
                           .key_dim = kDim,
                           .value_dim = kDim,
                           .tokens = std::min(step, kTokens - t),
                           .query = {q, kDim},
                           .key = {q + kTokens * kDim, kDim},
                           .value = {q + 2 * kTokens * kDim, kDim},
                           .decay = {gates.data() + t, 1},
                           .beta = {gates.data() + kTokens + t, 1},
                           .output = {output.data() + t * kDim, kDim}});
      }
      return state + output;
    };
    EXPECT_EQ(Difference(run(1), run(kTokens)), "") << table->name;
    EXPECT_EQ(Difference(run(1), run(2)), "") << table->name;
  }
}

}  // namespace
}  // namespace slotstream::kernels
