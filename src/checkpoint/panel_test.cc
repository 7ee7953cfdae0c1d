#include "checkpoint/panel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace slotstream::checkpoint {
namespace {

// Pieces whose every word and bf16 names its own row and column.
struct Pieces {
  std::vector<uint32_t> weight;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> biases;

  explicit Pieces(const PanelShape& shape) {
    for (uint32_t row = 0; row < shape.n; ++row) {
      for (uint32_t i = 0; i < shape.k / 8; ++i) weight.push_back((row + 1) << 16 | (i + 1));
      for (uint32_t g = 0; g < shape.groups(); ++g) {
        scales.push_back(static_cast<uint16_t>((row + 1) * 16 + g));
        biases.push_back(static_cast<uint16_t>((row + 1) * 16 + g + 0x8000));
      }
    }
  }
};

template <typename T>
const std::byte* Bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

std::vector<std::byte> Pack(const PanelShape& shape, const Pieces& pieces) {
  std::vector<std::byte> panels(shape.bytes(), std::byte{0xee});
  PackPanels(shape, Bytes(pieces.weight), Bytes(pieces.scales), Bytes(pieces.biases),
             panels.data());
  return panels;
}

template <typename T>
T At(const std::vector<std::byte>& bytes, size_t offset) {
  T value;
  std::memcpy(&value, &bytes.at(offset), sizeof value);
  return value;
}

TEST(PanelShapeTest, CountsPanelsLanesAndBytes) {
  const PanelShape full = {.n = 640, .k = 2560, .group = 64};
  EXPECT_EQ(full.panels(), 10u);
  EXPECT_EQ(full.groups(), 40u);
  EXPECT_EQ(full.lanes(9), 64u);
  EXPECT_EQ(full.lane_group_bytes(), 36u);
  EXPECT_EQ(full.panel_offset(1), 40u * 2304u);
  EXPECT_EQ(full.bytes(), 640u * 2560u / 2 + 2 * 2 * 640u * 40u);  // no padding

  for (auto [n, lanes] : {std::pair{1u, 16u}, {16u, 16u}, {17u, 32u}, {48u, 48u}, {49u, 64u}}) {
    const PanelShape shape = {.n = 64 + n, .k = 64, .group = 64};
    EXPECT_EQ(shape.panels(), 2u) << n;
    EXPECT_EQ(shape.lanes(0), 64u) << n;
    EXPECT_EQ(shape.lanes(1), lanes) << n;
    EXPECT_EQ(shape.bytes(), (64 + lanes) * 36) << n;
  }
}

// Every byte, for widths of the last panel and group sizes that occur.
TEST(PackPanelsTest, EveryByteIsInItsPlace) {
  for (uint32_t group : {32u, 64u, 128u}) {
    for (uint32_t n : {1u, 15u, 16u, 33u, 64u, 65u, 150u}) {
      const PanelShape shape = {.n = n, .k = 3 * group, .group = group};
      const Pieces pieces(shape);
      const std::vector<std::byte> panels = Pack(shape, pieces);
      size_t offset = 0;
      for (uint32_t p = 0; p < shape.panels(); ++p) {
        ASSERT_EQ(offset, shape.panel_offset(p));
        const uint32_t lanes = shape.lanes(p);
        for (uint32_t g = 0; g < shape.groups(); ++g) {
          for (uint32_t step = 0; step < group / 8; ++step) {
            for (uint32_t lane = 0; lane < lanes; ++lane, offset += 4) {
              const uint32_t row = 64 * p + lane;
              const uint32_t expected =
                  row < n ? pieces.weight[row * shape.k / 8 + g * group / 8 + step] : 0;
              ASSERT_EQ(At<uint32_t>(panels, offset), expected) << row << " " << g << " " << step;
            }
          }
          for (const auto* piece : {&pieces.scales, &pieces.biases}) {
            for (uint32_t lane = 0; lane < lanes; ++lane, offset += 2) {
              const uint32_t row = 64 * p + lane;
              const uint16_t expected = row < n ? (*piece)[row * shape.groups() + g] : 0;
              ASSERT_EQ(At<uint16_t>(panels, offset), expected) << row << " " << g;
            }
          }
        }
      }
      EXPECT_EQ(offset, shape.bytes());
    }
  }
}

TEST(PackPanelsTest, PiecesNeedNoAlignment) {
  const PanelShape shape = {.n = 20, .k = 64, .group = 32};
  const Pieces pieces(shape);
  const auto shifted = [](const auto& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(values[0]) + 1);
    std::memcpy(bytes.data() + 1, values.data(), bytes.size() - 1);
    return bytes;
  };
  const std::vector<std::byte> weight = shifted(pieces.weight);
  const std::vector<std::byte> scales = shifted(pieces.scales);
  const std::vector<std::byte> biases = shifted(pieces.biases);
  std::vector<std::byte> panels(shape.bytes() + 1);
  PackPanels(shape, weight.data() + 1, scales.data() + 1, biases.data() + 1, panels.data() + 1);
  const std::vector<std::byte> aligned = Pack(shape, pieces);
  EXPECT_TRUE(std::equal(aligned.begin(), aligned.end(), panels.begin() + 1));
}

}  // namespace
}  // namespace slotstream::checkpoint
