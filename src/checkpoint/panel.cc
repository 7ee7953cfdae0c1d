#include "checkpoint/panel.h"

#include <algorithm>
#include <cstring>

namespace slotstream::checkpoint {

void PackPanels(const PanelShape& shape, const std::byte* weight, const std::byte* scales,
                const std::byte* biases, std::byte* panels) {
  const size_t words_per_row = shape.k / 8;
  const size_t steps = shape.group / 8;
  std::byte* out = panels;
  for (uint32_t p = 0; p < shape.panels(); ++p) {
    const uint32_t lanes = shape.lanes(p);
    const uint32_t first = p * kPanelOutputs;
    const uint32_t used = std::min(lanes, shape.n - first);
    for (size_t g = 0; g < shape.groups(); ++g) {
      for (size_t step = 0; step < steps; ++step) {
        const std::byte* word = weight + (first * words_per_row + g * steps + step) * 4;
        for (uint32_t lane = 0; lane < used; ++lane, word += words_per_row * 4) {
          std::memcpy(out + lane * 4, word, 4);
        }
        std::memset(out + used * 4, 0, (lanes - used) * 4);
        out += lanes * 4;
      }
      for (const std::byte* piece : {scales, biases}) {
        for (uint32_t lane = 0; lane < used; ++lane) {
          std::memcpy(out + lane * 2, piece + ((first + lane) * size_t{shape.groups()} + g) * 2, 2);
        }
        std::memset(out + used * 2, 0, (lanes - used) * 2);
        out += lanes * 2;
      }
    }
  }
}

}  // namespace slotstream::checkpoint
