#include "model/causal_conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/scalar_math.h"

namespace slotstream::model {
namespace {

constexpr size_t kTokens = 40;

struct Data {
  explicit Data(const ConvShape& conv_shape) : shape(conv_shape) {
    std::mt19937 rng(8);
    std::uniform_real_distribution<float> value(-2, 2);
    for (float& x : in) x = value(rng);
    for (float& w : weight) w = value(rng);
  }
  ConvShape shape;
  std::vector<float> in = std::vector<float>(kTokens * shape.width);
  std::vector<float> weight = std::vector<float>(shape.kernel * shape.width);
};

// By the definition, token by token.
std::vector<float> Reference(const Data& data) {
  const ConvShape& shape = data.shape;
  std::vector<float> out(data.in.size());
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t c = 0; c < shape.width; ++c) {
      float acc = 0;
      for (size_t j = 0; j < shape.kernel; ++j) {
        const size_t back = shape.dilation * (shape.kernel - 1 - j);
        const float x = back <= t ? data.in[(t - back) * shape.width + c] : 0.0f;
        acc = std::fma(data.weight[j * shape.width + c], x, acc);
      }
      out[t * shape.width + c] = kernels::Silu(acc);
    }
  }
  return out;
}

TEST(CausalConvSilu, AnyPassesGiveTheBitsOfTheDefinition) {
  ThreadPool threads(2);
  for (const ConvShape& shape : {ConvShape{4, 1, 5}, ConvShape{4, 3, 6}, ConvShape{2, 3, 17},
                                 ConvShape{3, 2, 1}, ConvShape{1, 1, 4}}) {
    const Data data(shape);
    const std::vector<float> expected = Reference(data);
    for (const kernels::KernelTable* table : kernels::AvailableKernels()) {
      Compute compute(*table, kernels::ComputeMode::kExact, threads, {});
      std::mt19937 rng(1);
      // Passes of at most so many tokens: shorter than the history, about as long, and longer.
      for (const size_t longest : {size_t{1}, size_t{2}, size_t{5}, size_t{13}, kTokens}) {
        SCOPED_TRACE(::testing::Message()
                     << table->name << " kernel " << shape.kernel << " dilation " << shape.dilation
                     << " passes of " << longest);
        std::vector<float> history(shape.history() * shape.width);
        std::vector<float> out(data.in.size());
        for (size_t t = 0; t < kTokens;) {
          const size_t rows =
              std::min(kTokens - t, longest == kTokens ? kTokens : 1 + rng() % longest);
          CausalConvSilu(compute, shape, data.weight.data(),
                         {data.in.data() + t * shape.width, shape.width}, rows, history,
                         {out.data() + t * shape.width, shape.width});
          t += rows;
        }
        EXPECT_EQ(out, expected);
        EXPECT_EQ(history,
                  std::vector<float>(data.in.end() - static_cast<ptrdiff_t>(history.size()),
                                     data.in.end()));
      }
    }
  }
}

}  // namespace
}  // namespace slotstream::model
