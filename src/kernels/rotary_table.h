// Cosines and sines of rotary angles, the same bits on every machine.
#pragma once

#include <cstddef>

namespace slotstream::kernels {

// cos[i] and sin[i] of angles[i], in radians: float32 products of a position and a frequency,
// rounded to float32 by the caller. The results are double-precision values (error below 2^-51)
// rounded to float32; angles beyond +-2^20, which no context length reaches, give NaN, as NaN does.
// `angles` may be `cos` or `sin`.
void CosSin(const float* angles, size_t n, float* cos, float* sin);

}  // namespace slotstream::kernels
