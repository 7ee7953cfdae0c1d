#include "model/rotary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace slotstream::model {
namespace {

checkpoint::ModelConfig Config(uint32_t rotary_dim, std::vector<uint32_t> section) {
  checkpoint::ModelConfig config;
  config.rotary_dim = rotary_dim;
  config.rope_theta = 10'000;
  config.mrope_section = std::move(section);
  return config;
}

struct Angles {
  std::vector<float> cos, sin;
};
Angles At(const Rotary& rotary, const state::Position& position) {
  Angles angles{std::vector<float>(rotary.half()), std::vector<float>(rotary.half())};
  rotary.At(position, angles.cos.data(), angles.sin.data());
  return angles;
}

// The reference's rule: start from the time axis, then overwrite every third frequency from 1 with
// height and from 2 with width, up to three times their section.
std::vector<int> AxesBySlices(size_t half, const std::vector<uint32_t>& section) {
  std::vector<int> axes(half, 0);
  for (size_t axis = 1; axis < 3; ++axis) {
    const size_t end = std::min<size_t>(half, 3 * section[axis]);
    for (size_t i = axis; i < end; i += 3) axes[i] = static_cast<int>(axis);
  }
  return axes;
}

TEST(Rotary, AxesAreInterleaved) {
  for (const auto& [rotary_dim, section] : {std::pair{16u, std::vector<uint32_t>{3, 3, 2}},
                                            {64u, {11, 11, 10}},
                                            {64u, {24, 5, 3}},
                                            {8u, {2, 1, 1}},
                                            {8u, {4, 0, 0}}}) {
    SCOPED_TRACE(section[0]);
    const Rotary rotary(Config(rotary_dim, section));
    ASSERT_EQ(rotary.half(), rotary_dim / 2);
    const std::vector<int> axes = AxesBySlices(rotary.half(), section);
    for (size_t axis = 0; axis < 3; ++axis) {
      EXPECT_EQ(static_cast<uint32_t>(std::ranges::count(axes, static_cast<int>(axis))),
                section[axis]);
      state::Position position = {0, 0, 0};
      position[axis] = 1;
      const Angles angles = At(rotary, position);
      for (size_t i = 0; i < rotary.half(); ++i) {
        EXPECT_EQ(angles.sin[i] != 0, axes[i] == static_cast<int>(axis)) << "frequency " << i;
      }
    }
  }
}

TEST(Rotary, TurnsByTheFrequencies) {
  const Rotary rotary(Config(16, {3, 3, 2}));
  for (const int32_t position : {0, 1, 77, 4095, 262'143}) {
    const Angles angles = At(rotary, {position, position, position});
    for (size_t i = 0; i < rotary.half(); ++i) {
      const auto frequency =
          static_cast<float>(std::pow(10'000.0, -2.0 * static_cast<double>(i) / 16));
      const double angle = static_cast<float>(position) * frequency;  // float32, as the reference
      EXPECT_NEAR(angles.cos[i], std::cos(angle), 1e-7) << position << " " << i;
      EXPECT_NEAR(angles.sin[i], std::sin(angle), 1e-7) << position << " " << i;
    }
  }
}

}  // namespace
}  // namespace slotstream::model
