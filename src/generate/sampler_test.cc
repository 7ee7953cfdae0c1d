#include "generate/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "kernels/scalar_math.h"

namespace slotstream::generate {
namespace {

using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingParams Params(float temperature, float top_p, int64_t top_k, float min_p, float penalty,
                      uint64_t seed) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_p = top_p;
  params.top_k = top_k;
  params.min_p = min_p;
  params.presence_penalty = penalty;
  params.seed = seed;
  return params;
}

// The logits of the oracle's protocol: 24 random bits as a number in [-4, 4).
std::vector<float> OracleLogits(size_t vocab, uint64_t seed) {
  std::vector<float> logits;
  for (uint64_t state = seed; logits.size() < vocab;) {
    state = SplitMix64(state);
    logits.push_back(static_cast<float>(state >> 40) / 0x1p24f * 8.0f - 4.0f);
  }
  return logits;
}

std::vector<uint32_t> Draw(const SamplingParams& params, const std::vector<float>& logits,
                           size_t draws, bool accumulate) {
  Sampler sampler(params, logits.size());
  std::vector<uint32_t> picks;
  while (picks.size() < draws) {
    picks.push_back(sampler.Sample(logits));
    if (accumulate) sampler.Accept(picks.back());
  }
  return picks;
}

// The algorithm written down in the plainest way, with full sorts.
class PlainSampler {
 public:
  PlainSampler(const SamplingParams& params, size_t vocab) : params_(params), vocab_(vocab) {
    state_ = *params.seed == 0 ? 0xDEADBEEF : *params.seed;
  }
  uint32_t Sample(std::vector<float> raw) {
    raw.resize(vocab_);
    std::vector<float> l = raw;
    for (uint32_t id : generated) l[id] -= params_.presence_penalty;
    if (params_.temperature <= 0) return Highest(l);
    for (float& x : l) x /= params_.temperature;
    const auto k = static_cast<size_t>(params_.top_k);
    if (k > 0 && k < vocab_) {
      std::vector<float> sorted = l;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (float& x : l) {
        if (x < sorted[k - 1]) x = -kInf;
      }
    }
    const float max = *std::max_element(l.begin(), l.end());
    std::vector<float> p;
    float sum = 0;
    for (float x : l) p.push_back(kernels::Exp(x - max)), sum += p.back();
    for (float& x : p) x /= sum;
    if (params_.top_p < 1) {
      std::vector<size_t> order(vocab_);
      std::iota(order.begin(), order.end(), 0u);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
      float c = 0;
      for (size_t i : order) {
        c += p[i];
        if (!(c - p[i] < params_.top_p)) p[i] = 0;
      }
    }
    if (params_.min_p > 0) {
      const float cutoff = *std::max_element(p.begin(), p.end()) * params_.min_p;
      for (float& x : p) x = x < cutoff ? 0 : x;
    }
    state_ = SplitMix64(state_ + 1);
    const auto u = static_cast<float>(static_cast<double>(state_ >> 11) / 9007199254740992.0);
    std::vector<float> cdf;
    float c = 0;
    for (float x : p) cdf.push_back(c += x);
    if (!std::isfinite(c) || c <= 0) return Highest(raw);
    size_t pick = 0;
    while (pick < vocab_ && cdf[pick] < u * c) ++pick;
    return static_cast<uint32_t>(std::min(pick, vocab_ - 1));
  }
  std::set<uint32_t> generated;

 private:
  static uint32_t Highest(const std::vector<float>& l) {
    return static_cast<uint32_t>(std::max_element(l.begin(), l.end()) - l.begin());
  }
  SamplingParams params_;
  size_t vocab_;
  uint64_t state_;
};

TEST(Sampler, SplitMix64KnownValues) {
  // The published generator seeded with 1234567: its first three outputs.
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
  EXPECT_EQ(SplitMix64(1234567), 6457827717110365317u);
  EXPECT_EQ(SplitMix64(1234567 + kStep), 3203168211198807973u);
  EXPECT_EQ(SplitMix64(1234567 + 2 * kStep), 9817491932198370423u);
}

TEST(Sampler, AgreesWithNumpy) {
  // Drawn by a numpy program of the same algorithm.
  const auto logits = OracleLogits(256, 99);
  EXPECT_THAT(Draw(Params(0.8f, 0.95f, 40, 0, 0, 7), logits, 24, false),
              ElementsAre(146, 5, 5, 139, 23, 173, 62, 27, 27, 93, 146, 20, 139, 216, 208, 130, 146,
                          48, 108, 236, 255, 181, 170, 43));
  EXPECT_THAT(Draw(Params(0.8f, 1, 0, 0, 0, 7), logits, 24, false),
              ElementsAre(146, 5, 5, 139, 23, 173, 71, 42, 42, 108, 146, 23, 139, 208, 201, 130,
                          146, 50, 116, 236, 255, 181, 170, 48));
  EXPECT_THAT(Draw(Params(1.3f, 0.95f, 40, 0.05f, 0, 0), logits, 24, false),
              ElementsAre(23, 71, 80, 72, 173, 255, 208, 255, 27, 216, 255, 173, 27, 50, 216, 225,
                          9, 220, 17, 146, 20, 181, 152, 146));
  EXPECT_THAT(Draw(Params(0.5f, 0.95f, 40, 0, 1.5f, 7), logits, 24, true),
              ElementsAre(139, 5, 9, 146, 27, 181, 71, 48, 50, 130, 173, 23, 170, 225, 216, 123,
                          152, 77, 108, 255, 236, 172, 149, 45));
  EXPECT_THAT(Draw(Params(0, 0.95f, 40, 0, 2, 7), logits, 8, true),
              ElementsAre(50, 146, 27, 23, 173, 48, 181, 255));
  EXPECT_THAT(Draw(Params(0.8f, 0.7f, 0, 0, 0, 7), OracleLogits(5000, 3), 12, false),
              ElementsAre(3105, 100, 90, 2970, 465, 3782, 1562, 723, 717, 2362, 3072, 398));
}

TEST(Sampler, AgreesWithThePlainAlgorithm) {
  std::mt19937 rng(11);
  std::normal_distribution<float> normal(0, 3);
  const float temperatures[] = {0, 0.2f, 0.7f, 1, 5}, top_ps[] = {0.01f, 0.5f, 0.8f, 0.95f, 1};
  const int64_t top_ks[] = {0, 1, 5, 20, 400, 5000};
  const float min_ps[] = {0, 0, 0.02f, 0.5f, 1}, penalties[] = {0, 1.5f, -2};
  for (int round = 0; round < 600; ++round) {
    const size_t vocab = rng() % 1000 + 1;
    const SamplingParams params =
        Params(temperatures[rng() % 5], top_ps[rng() % 5], top_ks[rng() % 6], min_ps[rng() % 5],
               penalties[rng() % 3], rng() % 5);
    Sampler sampler(params, vocab);
    PlainSampler plain(params, vocab);
    for (int draw = 0; draw < 6; ++draw) {
      std::vector<float> logits;
      for (size_t i = 0; i < vocab + 8; ++i) {
        // Coarse values make ties; some logits are far below.
        float x = normal(rng);
        if (round % 3 == 0) x = std::round(x);
        if (rng() % 50 == 0) x = -1000;
        logits.push_back(i < vocab ? x : 50);  // the padding must never win
      }
      const uint32_t pick = sampler.Sample(logits);
      ASSERT_EQ(pick, plain.Sample(logits)) << "round " << round;
      ASSERT_LT(pick, vocab);
      sampler.Accept(pick);
      plain.generated.insert(pick);
    }
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  Sampler sampler(SamplingParams::Greedy(), 5);
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, 3, 2, 3, 3, 9}), 1u);
  EXPECT_EQ(sampler.Sample(std::vector<float>{kNan, -kInf, -5, kNan, -5}), 2u);
  EXPECT_EQ(sampler.Sample(std::vector<float>{kNan, kNan, kNan, kNan, kNan}), 0u);
}

TEST(Sampler, BadLogitsFallBackToTheHighest) {
  for (float temperature : {1.0f, 1e-38f}) {
    Sampler sampler(Params(temperature, 0.9f, 3, 0.1f, 0, 1), 4);
    for (int draw = 0; draw < 20; ++draw) {
      EXPECT_EQ(sampler.Sample(std::vector<float>{7, kNan, 7.01f, 7}), 2u);
    }
    EXPECT_EQ(sampler.Sample(std::vector<float>{1, kInf, 7, 2}), 1u);
    EXPECT_EQ(sampler.Sample(std::vector<float>{-kInf, -kInf, -kInf, -kInf}), 0u);
    EXPECT_EQ(sampler.Sample(std::vector<float>{-kInf, 5, 50, -kInf}), 2u);
  }
}

TEST(Sampler, OneRandomNumberACall) {
  // Rows that fall back take their number too, so what follows is the same.
  const SamplingParams params = Params(1, 1, 0, 0, 0, 3);
  const auto logits = OracleLogits(100, 1);
  Sampler a(params, 100), b(params, 100);
  a.Sample(logits);
  b.Sample(std::vector<float>(100, kNan));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a.Sample(logits), b.Sample(logits));
}

TEST(SamplingParams, Sanitized) {
  SamplingParams p = Params(kNan, kNan, -5, kNan, kInf, 0);
  p.max_tokens = -1;
  p.stop = {"", "x", ""};
  const SamplingParams clean = p.Sanitized();
  EXPECT_EQ(clean.temperature, 0);
  EXPECT_EQ(clean.top_p, 1);
  EXPECT_EQ(clean.top_k, 0);
  EXPECT_EQ(clean.min_p, 0);
  EXPECT_EQ(clean.presence_penalty, 0);
  EXPECT_EQ(clean.max_tokens, 32768);
  EXPECT_THAT(clean.stop, ElementsAre("x"));
  EXPECT_EQ(Params(-1, 0, 0, 2, 0, 0).Sanitized().temperature, 0);
  EXPECT_EQ(Params(-1, 0, 0, 2, 0, 0).Sanitized().top_p, 1);
  EXPECT_EQ(Params(-1, 1.5f, 0, 2, 0, 0).Sanitized().top_p, 1);
  EXPECT_EQ(Params(-1, 0, 0, 2, 0, 0).Sanitized().min_p, 1);
  EXPECT_EQ(Params(-1, 0, 0, -2, 0, 0).Sanitized().min_p, 0);
  p.max_tokens = 1 << 20;
  EXPECT_EQ(p.Sanitized().max_tokens, 32768);
}

}  // namespace
}  // namespace slotstream::generate
