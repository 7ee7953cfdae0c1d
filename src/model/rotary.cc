#include "model/rotary.h"

#include <cmath>

#include "kernels/rotary_table.h"

namespace slotstream::model {

Rotary::Rotary(const checkpoint::ModelConfig& config) {
  const uint32_t half = config.rotary_dim / 2;
  for (uint32_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * i / config.rotary_dim;
    // The only use of the C library's pow: 32 constants, computed in double and rounded.
    frequencies_.push_back(static_cast<float>(std::pow(config.rope_theta, exponent)));
    uint8_t axis = 0;
    if (i % 3 == 1 && i < 3 * config.mrope_section[1]) axis = 1;
    if (i % 3 == 2 && i < 3 * config.mrope_section[2]) axis = 2;
    axes_.push_back(axis);
  }
}

void Rotary::At(const state::Position& position, float* cos, float* sin) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    cos[i] = static_cast<float>(position[axes_[i]]) * frequencies_[i];
  }
  kernels::CosSin(cos, frequencies_.size(), cos, sin);
}

}  // namespace slotstream::model
