#include "generate/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace slotstream::generate {
namespace {

std::vector<double> LogSoftmaxOf(const std::vector<float>& logits) {
  std::vector<double> out(logits.size());
  const Status status = LogSoftmax(logits, out);
  EXPECT_TRUE(status) << status.error().message;
  return out;
}

std::vector<double> Logs(std::vector<double> probabilities) {
  for (double& p : probabilities) p = std::log(p);
  return probabilities;
}

std::vector<float> RandomLogits(std::mt19937& rng, size_t count, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(rng);
  return logits;
}

TEST(LogSoftmax, OfKnownLogits) {
  const auto half = LogSoftmaxOf({3.0f, 3.0f});
  EXPECT_DOUBLE_EQ(half[0], -std::log(2.0));
  const auto known = LogSoftmaxOf({0.0f, std::log(3.0f)});
  EXPECT_NEAR(known[0], std::log(0.25), 1e-7);
  EXPECT_NEAR(known[1], std::log(0.75), 1e-7);
}

TEST(LogSoftmax, StandsLargeLogits) {
  const auto out = LogSoftmaxOf({3e38f, -3e38f, 3e38f});
  EXPECT_DOUBLE_EQ(out[0], -std::log(2.0));
  EXPECT_TRUE(std::isfinite(out[1]));
  const auto shifted = LogSoftmaxOf({10001.0f, 10000.0f});
  const auto plain = LogSoftmaxOf({1.0f, 0.0f});
  EXPECT_DOUBLE_EQ(shifted[1], plain[1]);
}

TEST(LogSoftmax, NamesWhatIsNotFinite) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<double> out(3);
    const Status status = LogSoftmax(std::vector<float>{1.0f, 2.0f, bad}, out);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(status.error().message, testing::HasSubstr("token 2"));
  }
}

TEST(KlDivergence, OfKnownDistributions) {
  EXPECT_NEAR(KlDivergence(Logs({0.5, 0.5}), Logs({0.25, 0.75})),
              0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3), 1e-15);
  EXPECT_NEAR(KlDivergence(Logs({0.25, 0.75}), Logs({0.5, 0.5})),
              0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-15);
  // Far apart, and with probabilities that are 0 in double precision.
  EXPECT_NEAR(KlDivergence(Logs({1e-9, 1 - 1e-9}), Logs({1 - 1e-9, 1e-9})),
              (1 - 2e-9) * std::log((1 - 1e-9) / 1e-9), 1e-6);
  EXPECT_NEAR(KlDivergence(std::vector{0.0, -2000.0}, std::vector{-2000.0, 0.0}), 2000, 1e-9);
}

TEST(KlDivergence, OfEqualLogitsIsZero) {
  std::mt19937 rng(1);
  for (int i = 0; i < 50; ++i) {
    const auto logits = RandomLogits(rng, 1000, 20);
    EXPECT_EQ(KlDivergence(LogSoftmaxOf(logits), LogSoftmaxOf(logits)), 0.0);
  }
}

TEST(KlDivergence, IsTheDefinitionAndNeverNegative) {
  std::mt19937 rng(2);
  for (int i = 0; i < 50; ++i) {
    const auto p = LogSoftmaxOf(RandomLogits(rng, 500, 5));
    const auto q = LogSoftmaxOf(RandomLogits(rng, 500, 5));
    double sum = 0;
    for (size_t k = 0; k < p.size(); ++k) sum += std::exp(p[k]) * (p[k] - q[k]);
    EXPECT_NEAR(KlDivergence(p, q), sum, 1e-11 * sum);
  }
}

// KL of p and p (1 + e u) is e^2 / 2 times the variance of u under p; the plain sum drowns in
// rounding where that is 1e-20.
TEST(KlDivergence, ResolvesWhatIsTiny) {
  constexpr double kShift = 1e-10;
  std::vector<double> log_p = Logs({0.1, 0.2, 0.3, 0.4});
  std::vector<double> log_q = log_p;
  log_q[0] += std::log1p(0.2 / 0.1 * kShift);
  log_q[1] += std::log1p(-kShift);
  const double expected = kShift * kShift / 2 * (0.1 * 4 + 0.2 * 1);
  EXPECT_NEAR(KlDivergence(log_p, log_q) / expected, 1, 1e-4);
}

TEST(Percentile, IsTheNearestRank) {
  std::vector<double> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 37) % 100 + 1);
  EXPECT_EQ(Percentile(values, 0.99), 99);
  EXPECT_EQ(Percentile(values, 0.5), 50);
  EXPECT_EQ(Percentile(values, 1), 100);
  EXPECT_EQ(Percentile(values, 0), 1);
  EXPECT_EQ(Percentile({5, 7}, 0.99), 7);
  EXPECT_EQ(Percentile({5, 5, 5, 7}, 0.75), 5);
  EXPECT_EQ(Percentile({}, 0.99), 0);
}

TEST(Divergence, CountsPositions) {
  Divergence divergence;
  EXPECT_EQ(divergence.MeanKl(), 0);
  EXPECT_EQ(divergence.Top1Agreement(), 1);
  divergence.Add(Logs({0.5, 0.5}), Logs({0.25, 0.75}));  // a tie is the lower id's: they disagree
  divergence.Add(Logs({0.5, 0.5}), Logs({0.5, 0.5}));
  divergence.Add(Logs({0.5, 0.5}), Logs({0.75, 0.25}));
  divergence.Add(Logs({0.6, 0.4}), Logs({0.6, 0.4}));
  EXPECT_EQ(divergence.positions(), 4u);
  EXPECT_DOUBLE_EQ(divergence.Top1Agreement(), 0.75);
  const double kl = KlDivergence(Logs({0.5, 0.5}), Logs({0.25, 0.75}));
  EXPECT_NEAR(divergence.MeanKl(), 2 * kl / 4, 1e-15);
  EXPECT_NEAR(divergence.PercentileKl(0.99), kl, 1e-15);
  EXPECT_EQ(divergence.PercentileKl(0.5), 0);
}

TEST(Perplexity, OfAUniformDistributionIsItsSize) {
  Perplexity perplexity;
  EXPECT_EQ(perplexity.Value(), 1);
  const auto uniform = LogSoftmaxOf(std::vector<float>(4096, -7.5f));
  for (size_t i = 0; i < 100; ++i) perplexity.Add(uniform[i]);
  EXPECT_NEAR(perplexity.Value(), 4096, 1e-8);
}

TEST(Perplexity, IsTheGeometricMean) {
  Perplexity perplexity;
  perplexity.Add(std::log(1.0 / 2));
  perplexity.Add(std::log(1.0 / 8));
  EXPECT_NEAR(perplexity.Value(), 4, 1e-12);
}

}  // namespace
}  // namespace slotstream::generate
