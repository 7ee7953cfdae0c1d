// Panels: the order in which a 4-bit weight matrix lies in memory and in packed files.
//
// A matrix [n, k] is cut into panels of 64 outputs. A panel is read strictly forward; for each
// group of `group` inputs it holds
//
//   group/8 steps of `lanes` u32   word [step][lane] = 8 consecutive 4-bit values of one output,
//                                  lowest nibble first: exactly the checkpoint's own word
//   `lanes` bf16 scales
//   `lanes` bf16 biases
//
// with weight = scale * q + bias. `lanes` is 64, in the last panel n - 64 p rounded up to 16; the
// lanes past n are zero. With group 64 that is 2,304 bytes per panel and group, 4.5 bits a weight.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slotstream::checkpoint {

inline constexpr uint32_t kPanelOutputs = 64;
inline constexpr uint32_t kLaneStep = 16;

struct PanelShape {
  uint32_t n = 0;      // outputs
  uint32_t k = 0;      // inputs, a multiple of group
  uint32_t group = 0;  // inputs that share a scale and a bias; a multiple of 8

  uint32_t groups() const { return k / group; }
  uint32_t panels() const { return (n + kPanelOutputs - 1) / kPanelOutputs; }
  // Outputs stored for panel p, 16 to 64.
  uint32_t lanes(uint32_t p) const {
    uint32_t left = n - p * kPanelOutputs;
    return left >= kPanelOutputs ? kPanelOutputs : (left + kLaneStep - 1) / kLaneStep * kLaneStep;
  }
  // Bytes of one group of one lane: nibbles, scale, bias.
  size_t lane_group_bytes() const { return group / 2 + 4; }
  size_t panel_offset(uint32_t p) const {
    return size_t{p} * kPanelOutputs * groups() * lane_group_bytes();
  }
  size_t bytes() const {
    return panel_offset(panels() - 1) + size_t{lanes(panels() - 1)} * groups() * lane_group_bytes();
  }
  bool operator==(const PanelShape&) const = default;
};

// Writes shape.bytes() bytes of panels to `panels` from the checkpoint's three row-major pieces:
// weight u32 [n, k/8], scales and biases bf16 [n, k/group]. The pieces need no alignment.
void PackPanels(const PanelShape& shape, const std::byte* weight, const std::byte* scales,
                const std::byte* biases, std::byte* panels);

}  // namespace slotstream::checkpoint
