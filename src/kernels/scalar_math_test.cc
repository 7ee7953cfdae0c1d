#include "kernels/scalar_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace slotstream::kernels {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kSmallestNormal = std::numeric_limits<float>::min();

// Error in units in the last place of the float32 nearest to `exact`.
double UlpError(float actual, double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::abs(actual - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

// The largest error over about `count` floats, evenly spread over the bit patterns from low to high
// (of one sign), so over magnitudes.
template <typename Function, typename Exact>
double LargestError(float low, float high, uint32_t count, Function function, Exact exact) {
  uint32_t from = std::bit_cast<uint32_t>(low);
  uint32_t to = std::bit_cast<uint32_t>(high);
  if (from > to) std::swap(from, to);
  double largest = 0;
  for (uint64_t bits = from; bits <= to; bits += std::max(1u, (to - from) / count)) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    largest = std::max(largest, UlpError(function(x), exact(x)));
  }
  return largest;
}

double ExactExp(double x) { return std::exp(x); }
double ExactLog1p(double x) { return std::log1p(x); }
double ExactSigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double ExactSilu(double x) { return x / (1 + std::exp(-x)); }

constexpr uint32_t kCount = 300000;

TEST(ScalarMathTest, ExpIsAccurateOverItsWholeRange) {
  EXPECT_LE(LargestError(0.0f, exp_constants::kHighest, kCount, Exp, ExactExp), 0.92);
  EXPECT_LE(LargestError(-0.0f, exp_constants::kLowest, kCount, Exp, ExactExp), 0.92);
  // Where most arguments of a softmax lie, and every integer is a change of power.
  EXPECT_LE(LargestError(-0.25f, -40.0f, kCount, Exp, ExactExp), 0.92);
}

TEST(ScalarMathTest, ExpAtItsLimits) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_GE(Exp(exp_constants::kLowest), kSmallestNormal);
  EXPECT_LE(Exp(exp_constants::kHighest), kMax);
  EXPECT_LT(std::exp(double{std::nextafter(exp_constants::kLowest, -100.0f)}), kSmallestNormal);
  EXPECT_GT(std::exp(double{std::nextafter(exp_constants::kHighest, 100.0f)}), kMax);
  EXPECT_EQ(Exp(std::nextafter(exp_constants::kLowest, -100.0f)), 0.0f);
  EXPECT_EQ(Exp(std::nextafter(exp_constants::kHighest, 100.0f)), kInfinity);
  EXPECT_EQ(Exp(-kMax), 0.0f);
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_EQ(Exp(kMax), kInfinity);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
}

TEST(ScalarMathTest, Log1pIsAccurate) {
  EXPECT_LE(LargestError(0.0f, 0x1p+127f, kCount, Log1p, ExactLog1p), 1.38);
  // e^-20 to e^20, what softplus uses.
  EXPECT_LE(LargestError(2.06e-9f, 4.86e8f, kCount, Log1p, ExactLog1p), 1.38);
  EXPECT_EQ(Log1p(0.0f), 0.0f);
  EXPECT_EQ(Log1p(kInfinity), kInfinity);
}

TEST(ScalarMathTest, SigmoidAndSiluAreAccurate) {
  EXPECT_LE(LargestError(0.0f, 200.0f, kCount, Sigmoid, ExactSigmoid), 2.44);
  EXPECT_LE(LargestError(-0.0f, -87.3f, kCount, Sigmoid, ExactSigmoid), 2.44);
  EXPECT_LE(LargestError(0.0f, 200.0f, kCount, Silu, ExactSilu), 2.36);
  EXPECT_LE(LargestError(-0.0f, -87.3f, kCount, Silu, ExactSilu), 2.36);
  EXPECT_EQ(Sigmoid(-1000.0f), 0.0f);
  EXPECT_EQ(Sigmoid(1000.0f), 1.0f);
  EXPECT_EQ(Silu(-1000.0f), 0.0f);
  EXPECT_EQ(Silu(1000.0f), 1000.0f);
}

TEST(ScalarMathTest, NanStaysNan) {
  // Payloads whose low bits would disturb the exponent if they were shifted into it.
  for (uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7fffffffu, 0xff8000ffu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(Exp(nan))) << bits;
    EXPECT_TRUE(std::isnan(Log1p(nan))) << bits;
    EXPECT_TRUE(std::isnan(Sigmoid(nan))) << bits;
    EXPECT_TRUE(std::isnan(Silu(nan))) << bits;
  }
  EXPECT_TRUE(std::isnan(Silu(-kInfinity)));
}

}  // namespace
}  // namespace slotstream::kernels
