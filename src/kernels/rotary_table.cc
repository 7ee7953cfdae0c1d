#include "kernels/rotary_table.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace slotstream::kernels {
namespace {

// Plain double operations only; the build forbids the compiler to fuse them (-ffp-contract=off).

// pi/2 in three parts. The first two have 33 bits, so that their products with a multiplier below
// 2^20 are exact.
constexpr double kHalfPi1 = 0x1.921fb544p+0;
constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;
constexpr double kLargest = 0x1p+20;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// Adding it rounds to an integer, left in the low bits of the mantissa.
constexpr double kRoundMagic = 0x1.8p+52;

// Taylor coefficients: at |r| <= pi/4 the first one left out is below 2^-56 of the result.
double SinNearZero(double r) {
  const double z = r * r;
  double p = -1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return r + r * z * p;
}

double CosNearZero(double r) {
  const double z = r * r;
  double p = 1.0 / 20922789888000.0;
  p = p * z - 1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  p = p * z - 0.5;
  return 1.0 + z * p;
}

}  // namespace

void CosSin(const float* angles, size_t n, float* cos, float* sin) {
  for (size_t i = 0; i < n; ++i) {
    const double angle = angles[i];
    if (!(std::abs(angle) <= kLargest)) {
      cos[i] = sin[i] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    const double shifted = angle * kTwoOverPi + kRoundMagic;
    const double turns = shifted - kRoundMagic;
    const double r = ((angle - turns * kHalfPi1) - turns * kHalfPi2) - turns * kHalfPi3;
    const double s = SinNearZero(r);
    const double c = CosNearZero(r);
    const uint64_t quadrant = std::bit_cast<uint64_t>(shifted) & 3;
    const double cosine = quadrant % 2 == 0 ? c : s;
    const double sine = quadrant % 2 == 0 ? s : c;
    cos[i] = static_cast<float>(quadrant == 1 || quadrant == 2 ? -cosine : cosine);
    sin[i] = static_cast<float>(quadrant >= 2 ? -sine : sine);
  }
}

}  // namespace slotstream::kernels
