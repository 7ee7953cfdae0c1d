#include "model/hyper_connection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bf16.h"

namespace slotstream::model {
namespace {

constexpr uint32_t kStreams = 3;
constexpr uint32_t kHidden = 32;
constexpr uint32_t kWidth = kStreams * kHidden;
constexpr uint32_t kLow = 16;
constexpr uint32_t kGroup = 16;
constexpr size_t kRows = 5;

checkpoint::ModelConfig Config() {
  checkpoint::ModelConfig config;
  config.hidden_size = kHidden;
  config.hc_count = kStreams;
  config.hc_lowrank = kLow;
  return config;
}

class Random {
 public:
  std::vector<float> Floats(size_t count, float low, float high) {
    std::uniform_real_distribution<float> value(low, high);
    std::vector<float> out(count);
    for (float& x : out) x = value(rng_);
    return out;
  }
  std::vector<uint16_t> Bf16(size_t count, float low, float high) {
    std::vector<uint16_t> out;
    for (float x : Floats(count, low, high)) out.push_back(FloatToBf16(x));
    return out;
  }
  uint32_t Word() { return static_cast<uint32_t>(rng_()); }

 private:
  std::mt19937 rng_{6};
};

// A 4-bit matrix in panels, and the same numbers in double.
struct Matrix {
  Matrix(Random& random, uint32_t n, uint32_t k) : shape{.n = n, .k = k, .group = kGroup} {
    std::vector<uint32_t> words(n * k / 8);
    for (uint32_t& word : words) word = random.Word();
    const std::vector<uint16_t> scales = random.Bf16(n * k / kGroup, 0.01f, 0.05f);
    const std::vector<uint16_t> biases = random.Bf16(n * k / kGroup, -0.4f, -0.1f);
    panels.resize(shape.bytes());
    checkpoint::PackPanels(shape, reinterpret_cast<const std::byte*>(words.data()),
                           reinterpret_cast<const std::byte*>(scales.data()),
                           reinterpret_cast<const std::byte*>(biases.data()), panels.data());
    for (uint32_t i = 0; i < n * k; ++i) {
      const uint32_t q = words[i / 8] >> (i % 8 * 4) & 15;
      values.push_back(double{Bf16ToFloat(scales[i / kGroup])} * q +
                       double{Bf16ToFloat(biases[i / kGroup])});
    }
  }
  std::vector<double> Times(const std::vector<double>& x) const {
    std::vector<double> y(shape.n);
    for (uint32_t o = 0; o < shape.n; ++o) {
      for (uint32_t i = 0; i < shape.k; ++i) y[o] += values[o * shape.k + i] * x[i];
    }
    return y;
  }
  checkpoint::PanelShape shape;
  std::vector<std::byte> panels;
  std::vector<double> values;
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Site {
  Site()
      : norm(random.Floats(kWidth, 0.5f, 1.5f)),
        down(random, kLow, kWidth),
        up(random, kWidth, kLow),
        inject(random.Bf16(kStreams * kWidth, -0.3f, 0.3f)),
        residual(random.Floats(kRows * kWidth, -2, 2)) {}

  HyperConnectionWeights Weights(bool with_inject) const {
    return {.norm = norm.data(),
            .down = {down.panels.data(), down.shape},
            .up = {up.panels.data(), up.shape},
            .inject = {with_inject ? inject.data() : nullptr, kStreams, kWidth}};
  }

  Random random;
  std::vector<float> norm;
  Matrix down, up;
  std::vector<uint16_t> inject;
  std::vector<float> residual;
};

TEST(HyperConnection, ReadsAsTheFormulaSays) {
  Site site;
  const checkpoint::ModelConfig config = Config();
  ThreadPool threads(2);
  const auto mode = kernels::ComputeMode::kExact;
  AlignedBuffer prepared =
      *AlignedBuffer::Allocate(Compute::ScratchBytes(mode, kRows, kWidth, kGroup), "rows");
  Compute compute(**kernels::SelectKernels("auto"), mode, threads, prepared.span());
  std::vector<float> scratch(HyperConnectionScratch(config, kRows));
  for (const bool with_inject : {true, false}) {
    std::vector<float> x(kRows * kHidden), a(kRows * kStreams, -1);
    ReadStreams(compute, config, site.Weights(with_inject), {site.residual.data(), kWidth}, kRows,
                {x.data(), kHidden}, {a.data(), kStreams}, Arena(scratch.data()));
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<double> n(kWidth);
      for (size_t s = 0; s < kStreams; ++s) {
        const float* stream = site.residual.data() + r * kWidth + s * kHidden;
        double square = 0;
        for (size_t i = 0; i < kHidden; ++i) square += double{stream[i]} * stream[i];
        for (size_t i = 0; i < kHidden; ++i) {
          n[s * kHidden + i] =
              stream[i] / std::sqrt(square / kHidden + 1e-6) * site.norm[s * kHidden + i];
        }
      }
      std::vector<double> low = site.down.Times(n);
      for (double& t : low) t = t / kStreams * Sigmoid(t / kStreams);
      const std::vector<double> g = site.up.Times(low);
      for (size_t i = 0; i < kHidden; ++i) {
        double expected = 0;
        for (size_t s = 0; s < kStreams; ++s) {
          expected += Sigmoid(g[s * kHidden + i]) * n[s * kHidden + i] / kStreams;
        }
        EXPECT_NEAR(x[r * kHidden + i], expected, 1e-5);
      }
      for (size_t s = 0; s < kStreams; ++s) {
        double sum = 0;
        for (size_t i = 0; i < kWidth; ++i) {
          sum += double{Bf16ToFloat(site.inject[s * kWidth + i])} * n[i];
        }
        EXPECT_NEAR(a[r * kStreams + s], with_inject ? 2 * Sigmoid(sum / kStreams) : -1, 1e-5);
      }
    }
  }
}

TEST(HyperConnection, WritesToEveryStreamByItsWeight) {
  Site site;
  ThreadPool threads(2);
  const auto mode = kernels::ComputeMode::kExact;
  AlignedBuffer prepared =
      *AlignedBuffer::Allocate(Compute::ScratchBytes(mode, kRows, kWidth, kGroup), "rows");
  Compute compute(**kernels::SelectKernels("auto"), mode, threads, prepared.span());
  const std::vector<float> y = site.random.Floats(kRows * kHidden, -1, 1);
  const std::vector<float> a = site.random.Floats(kRows * kStreams, 0, 2);
  std::vector<float> residual = site.residual;
  WriteStreams(compute, Config(), {y.data(), kHidden}, {a.data(), kStreams}, kRows,
               {residual.data(), kWidth});
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = 0; i < kWidth; ++i) {
      EXPECT_EQ(residual[r * kWidth + i],
                std::fma(a[r * kStreams + i / kHidden], y[r * kHidden + i % kHidden],
                         site.residual[r * kWidth + i]));
    }
  }
}

}  // namespace
}  // namespace slotstream::model
