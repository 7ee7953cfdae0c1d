// Rotary position embedding with interleaved axes (M-RoPE).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "state/sequence.h"

namespace slotstream::model {

// Frequency i turns by theta^(-2i / rotary_dim) per position, on the height axis where i mod 3 is 1
// and i < 3 section[1], on the width axis where i mod 3 is 2 and i < 3 section[2], otherwise on the
// time axis. Frequencies and angles are float32, as in the reference implementation: in exact
// arithmetic far positions would differ visibly.
class Rotary {
 public:
  explicit Rotary(const checkpoint::ModelConfig& config);

  size_t half() const { return frequencies_.size(); }  // rotary_dim / 2
  // cos and sin [half()] of a position.
  void At(const state::Position& position, float* cos, float* sin) const;

 private:
  std::vector<float> frequencies_;
  std::vector<uint8_t> axes_;
};

}  // namespace slotstream::model
