// Exponential, logarithm and their kin in float32: polynomials in fused operations, so that scalar
// and vector code (simd_math-inl.h: the same operations in the same order) give the same bits on
// every machine. No library function but std::fma, which rounds once by definition, and no
// conversion to an integer, so that no argument is undefined.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace slotstream::kernels {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

namespace exp_constants {
// Adding it rounds to an integer, left in the low bits of the mantissa.
inline constexpr float kRoundMagic = 0x1.8p+23f;
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e430p-1f;
inline constexpr float kLn2Low = -0x1.05c610p-29f;
// e^x is in [2^-126, FLT_MAX] just for x in [kLowest, kHighest].
inline constexpr float kLowest = -0x1.5d589ep+6f;
inline constexpr float kHighest = 0x1.62e42ep+6f;
// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2, least maximum relative error of e^r: 3e-9.
inline constexpr float kC2 = 0x1.fffffcp-2f;
inline constexpr float kC3 = 0x1.555492p-3f;
inline constexpr float kC4 = 0x1.5558f2p-5f;
inline constexpr float kC5 = 0x1.1239e0p-7f;
inline constexpr float kC6 = 0x1.6a243ap-10f;
}  // namespace exp_constants

namespace log_constants {
inline constexpr uint32_t kSqrtHalfBits = 0x3f3504f3;  // the mantissa is reduced to [√½, √2)
inline constexpr float kLn2High = 0x1.63p-1f;          // few bits: exact when multiplied by k
inline constexpr float kLn2Low = -0x1.bd0106p-13f;
// (ln(1 + f) - f + f^2/2) / f^3 for f in [√½ - 1, √2 - 1], least maximum relative error: 1e-9.
inline constexpr float kC[] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,
                               -0x1.555c40p-3f, 0x1.23373ep-3f,  -0x1.fc23c0p-4f,
                               0x1.e6f4e4p-4f,  -0x1.de335cp-4f, 0x1.144226p-4f};
}  // namespace log_constants

// e^x within 0.92 ulp. Results below 2^-126 are 0, above FLT_MAX infinity; NaN gives NaN.
inline float Exp(float x) {
  using namespace exp_constants;
  const float shifted = std::fma(x, kLog2E, kRoundMagic);
  const float n = shifted - kRoundMagic;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float p = kC6;
  p = std::fma(p, r, kC5);
  p = std::fma(p, r, kC4);
  p = std::fma(p, r, kC3);
  p = std::fma(p, r, kC2);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  // Times 2^n: n sits in the low bits of `shifted`, whose other bits the shift drops.
  p = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(shifted) << 23));
  p = x < kLowest ? 0.0f : p;
  return x <= kHighest ? p : x + kInfinity;
}

// ln(1 + e) for e in [0, 2^127], within 1.38 ulp. Infinity gives infinity, NaN gives NaN.
inline float Log1p(float e) {
  using namespace log_constants;
  const float u = 1.0f + e;
  const float lost = e < 1.0f ? e - (u - 1.0f) : 1.0f - (u - e);
  // u = 2^k m with m in [√½, √2); f = m - 1 with what the first rounding lost.
  const uint32_t exponent = (std::bit_cast<uint32_t>(u) - kSqrtHalfBits) & 0xff800000u;
  const float m = std::bit_cast<float>(std::bit_cast<uint32_t>(u) - exponent);
  const float inverse_power = std::bit_cast<float>(0x3f800000u - exponent);
  const float f = std::fma(lost, inverse_power, m - 1.0f);
  // k as a float: its biased form is an integer below 2^23, placed in a mantissa.
  const float k = std::bit_cast<float>(0x4b000000u | (exponent >> 23)) - 0x1p+23f;
  float p = kC[8];
  for (int i = 7; i >= 0; --i) p = std::fma(p, f, kC[i]);
  const float square = f * f;
  float tail = (square * f) * p;
  tail = std::fma(k, kLn2Low, tail);
  tail = std::fma(square, -0.5f, tail);
  const float result = std::fma(k, kLn2High, f + tail);
  return e < kInfinity ? result : e + e;
}

// 1 / (1 + e^-x) within 2.44 ulp; 0 for x < -88.7.
inline float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// x / (1 + e^-x) within 2.36 ulp. Minus infinity gives NaN.
inline float Silu(float x) { return x / (1.0f + Exp(-x)); }

}  // namespace slotstream::kernels
