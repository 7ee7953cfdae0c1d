// Random numbers and buffers for the kernels' tests: the same on every machine.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "checkpoint/panel.h"
#include "kernels/kernels.h"

namespace slotstream::kernels {

// What random floats look like.
enum class Data {
  kOrdinary,  // in [-2, 2)
  kWide,      // zeros of both signs, denormals, magnitudes from 2^-120 to 2^20
  kInfinite,  // ordinary, with infinities now and then
};

// SplitMix64; the standard library's distributions differ between implementations.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  size_t Below(size_t n) { return Bits() % n; }
  size_t Between(size_t low, size_t high) { return low + Below(high - low + 1); }

  float Ordinary() {
    return static_cast<float>(static_cast<int32_t>(Bits() >> 40) - 0x800000) * 0x1p-22f;
  }

  float Value(Data data) {
    const float ordinary = Ordinary();
    const size_t kind = Below(16);
    if (data == Data::kInfinite && kind == 0) {
      return std::copysign(std::numeric_limits<float>::infinity(), ordinary);
    }
    if (data != Data::kWide) return ordinary;
    const float sign = ordinary < 0 ? -1.0f : 1.0f;
    switch (kind) {
      case 0:
        return 0.0f;
      case 1:
        return -0.0f;
      case 2:
        return sign * std::bit_cast<float>(static_cast<uint32_t>(Below(0x800000)));
      case 3:
      case 4:
        return ordinary * PowerOfTwo(-static_cast<int>(Below(120)));
      case 5:
      case 6:
        return ordinary * PowerOfTwo(static_cast<int>(Below(20)));
      default:
        return ordinary;
    }
  }

 private:
  static float PowerOfTwo(int e) {
    return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
  }

  uint64_t state_;
};

// n random floats at a random offset from alignment. The allocation ends with the last one, so that
// AddressSanitizer sees every read past it.
class Input {
 public:
  Input(Random& random, size_t n, Data data) : offset_(random.Below(16)), values_(offset_ + n) {
    for (float& value : values_) value = random.Value(data);
  }
  const float* data() const { return values_.data() + offset_; }
  float operator[](size_t i) const { return data()[i]; }

 private:
  size_t offset_;
  std::vector<float> values_;
};

// n random floats to be overwritten, between guards that must survive.
class Output {
 public:
  Output(Random& random, size_t n, Data data = Data::kOrdinary)
      : offset_(kGuard + random.Below(16)), n_(n), values_(offset_ + n + kGuard, kGuardValue) {
    for (size_t i = 0; i < n; ++i) this->data()[i] = random.Value(data);
  }
  float* data() { return values_.data() + offset_; }
  std::vector<float> Values() const {
    return {values_.begin() + offset_, values_.begin() + offset_ + n_};
  }
  bool GuardsSurvive() const {
    for (size_t i = 0; i < values_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + n_) && values_[i] != kGuardValue) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr float kGuardValue = -123456.75f;
  size_t offset_;
  size_t n_;
  std::vector<float> values_;
};

// A random 4-bit matrix as the checkpoint stores it, and packed at an address of any alignment.
struct PanelMatrix {
  PanelShape shape;
  std::vector<uint32_t> words;   // [n, k/8]
  std::vector<uint16_t> scales;  // [n, k/group] bf16
  std::vector<uint16_t> biases;  // [n, k/group] bf16
  std::vector<std::byte> storage;
  size_t offset = 0;

  PanelMatrix(Random& random, const PanelShape& panel_shape, Data data)
      : shape(panel_shape),
        words(size_t{shape.n} * shape.k / 8),
        scales(size_t{shape.n} * shape.groups()),
        biases(scales.size()),
        offset(random.Below(64)) {
    for (uint32_t& word : words) word = static_cast<uint32_t>(random.Bits());
    for (uint16_t& scale : scales) scale = FloatToBf16(random.Value(data) / 16);
    for (uint16_t& bias : biases) bias = FloatToBf16(random.Value(data));
    storage.resize(offset + shape.bytes());
    checkpoint::PackPanels(shape, AsBytes(words), AsBytes(scales), AsBytes(biases),
                           storage.data() + offset);
  }

  const std::byte* panels() const { return storage.data() + offset; }

  template <typename T>
  static const std::byte* AsBytes(const std::vector<T>& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  }
};

// Rows made ready for one mode's products.
class Prepared {
 public:
  Prepared(const PanelKernels& kernels, ComputeMode mode, ConstRows x, const PanelShape& shape,
           size_t rows)
      : shape_(shape),
        whole_codes_(kernels.whole_codes),
        stride_(PreparedBytes(mode, shape.k, shape.group)),
        lines_(rows * stride_ / sizeof(Line)) {
    auto* out = reinterpret_cast<std::byte*>(lines_.data());
    for (size_t r = 0; r < rows; ++r) {
      kernels.prepare(x.row(r), shape.k, shape.group, out + r * stride_);
    }
  }
  PreparedRows rows() const { return {reinterpret_cast<const std::byte*>(lines_.data()), stride_}; }

  // The first `used` bytes of row r, whole codes as the two terms that other instruction sets have.
  std::vector<std::byte> Terms(size_t r, size_t used) const {
    std::vector<std::byte> bytes(rows().row(r), rows().row(r) + used);
    if (!whole_codes_) return bytes;
    constexpr size_t kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    for (size_t i = 0; i < shape_.k; ++i) {
      const size_t step = i / 8 * 8;
      int16_t code;
      std::memcpy(&code, rows().row(r) + 2 * i, sizeof code);
      const size_t input = step % shape_.group + kOrder[i % 8];
      std::byte* high = bytes.data() + step / shape_.group * shape_.group * 2 + input / 8 * 8 +
                        input % 2 * 4 + input % 8 / 2;
      high[0] = static_cast<std::byte>((code + 128) >> 8);
      high[shape_.group] = static_cast<std::byte>(code);
    }
    return bytes;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  PanelShape shape_;
  bool whole_codes_;
  size_t stride_;
  std::vector<Line> lines_;  // ends with the last row: AddressSanitizer sees reads past it
};

}  // namespace slotstream::kernels
