#include "kernels/rotary_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/test_data.h"

namespace slotstream::kernels {
namespace {

struct Pair {
  float cos;
  float sin;
};

Pair At(float angle) {
  Pair pair;
  CosSin(&angle, 1, &pair.cos, &pair.sin);
  return pair;
}

void ExpectRounded(float angle) {
  const Pair pair = At(angle);
  EXPECT_EQ(pair.cos, static_cast<float>(std::cos(static_cast<long double>(angle)))) << angle;
  EXPECT_EQ(pair.sin, static_cast<float>(std::sin(static_cast<long double>(angle)))) << angle;
}

TEST(RotaryTableTest, RotaryAnglesAreRoundedCorrectly) {
  Random random(1);
  for (int i = 0; i < 30000; ++i) {
    const float frequency = std::pow(1e7f, -static_cast<float>(random.Below(32)) / 32);
    ExpectRounded(static_cast<float>(random.Below(262144)) * frequency);
  }
}

TEST(RotaryTableTest, AnglesOfAllMagnitudesAreRoundedCorrectly) {
  Random random(2);
  for (int i = 0; i < 30000; ++i) {
    ExpectRounded(std::ldexp(random.Ordinary(), static_cast<int>(random.Below(39)) - 20));
  }
  for (float angle : {0.0f, 0x1p-149f, 0x1p+20f, -0x1p+20f}) ExpectRounded(angle);
}

// Floats next to multiples of pi/2: what is left after the reduction is smallest, so that the third
// part of pi/2 matters.
TEST(RotaryTableTest, MultiplesOfHalfPiAreRoundedCorrectly) {
  for (int n = 1; n < 660000; ++n) {
    const double exact = n * 1.57079632679489661923;
    const auto angle = static_cast<float>(exact);
    if (std::abs(angle - exact) < 1e-3) ExpectRounded(angle);
  }
}

TEST(RotaryTableTest, AnglesMayBeTheOutput) {
  std::array<float, 3> cos = {0.5f, 2.0f, -4.0f};
  std::array<float, 3> sin;
  CosSin(cos.data(), cos.size(), cos.data(), sin.data());
  EXPECT_EQ(cos[2], At(-4.0f).cos);
  EXPECT_EQ(sin[2], At(-4.0f).sin);
}

TEST(RotaryTableTest, AnglesOutOfRangeGiveNan) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (float angle : {std::nextafter(0x1p+20f, kInfinite), 1e30f, -1e38f, kInfinite, -kInfinite,
                      std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(At(angle).cos)) << angle;
    EXPECT_TRUE(std::isnan(At(angle).sin)) << angle;
  }
}

}  // namespace
}  // namespace slotstream::kernels
