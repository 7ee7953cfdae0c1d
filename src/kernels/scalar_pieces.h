// What the scalar definitions have in common: weights' words, and sums in 16 parts.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bf16.h"

namespace slotstream::kernels {

inline uint32_t LoadWord(const std::byte* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

inline float LoadBf16(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return Bf16ToFloat(bits);
}

// Value i of a word, as an integer.
inline int32_t Nibble(uint32_t word, size_t i) {
  return static_cast<int32_t>((word >> (4 * i)) & 15u);
}

// The 16 partial sums of Sum16 and Dot16, and the tree that ends them.
struct Partials {
  float p[16] = {};

  float Total() {
    for (size_t h = 8; h > 0; h /= 2) {
      for (size_t j = 0; j < h; ++j) p[j] += p[j + h];
    }
    return p[0];
  }
};

inline float Sum16(const float* v, size_t n) {
  Partials partials;
  for (size_t i = 0; i < n; ++i) partials.p[i % 16] += v[i];
  return partials.Total();
}

inline float Dot16(const float* a, const float* b, size_t n) {
  Partials partials;
  for (size_t i = 0; i < n; ++i) partials.p[i % 16] = std::fma(a[i], b[i], partials.p[i % 16]);
  return partials.Total();
}

}  // namespace slotstream::kernels
