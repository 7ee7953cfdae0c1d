#include "generate/penalties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "generate/sampler.h"

namespace slotstream::generate {
namespace {

using ::testing::ElementsAre;

SamplingParams Off() { return SamplingParams::Greedy(); }

std::vector<float> Applied(const Penalties& penalties, std::vector<float> logits) {
  penalties.Apply(logits);
  return logits;
}

TEST(Penalties, EachDoesWhatItSays) {
  SamplingParams bias = Off();
  bias.logit_bias = {{1, 2.5f}, {3, -100}, {7, 5}};
  EXPECT_THAT(Applied(Penalties(bias, 4), {1, 1, 1, 1}), ElementsAre(1, 3.5f, 1, -99));

  SamplingParams frequency = Off();
  frequency.frequency_penalty = 0.5f;
  Penalties counted(frequency, 4);
  counted.AcceptPrompt(std::vector<uint32_t>{0, 0, 0});
  for (uint32_t id : {1u, 2u, 2u, 2u, 9u}) counted.Accept(id);
  EXPECT_THAT(Applied(counted, {4, 4, 4, 4}), ElementsAre(4, 3.5f, 2.5f, 4));

  SamplingParams presence = Off();
  presence.presence_penalty = 1.5f;
  Penalties present(presence, 4);
  for (uint32_t id : {1u, 2u, 2u}) present.Accept(id);
  EXPECT_THAT(Applied(present, {4, 4, 4, 4}), ElementsAre(4, 2.5f, 2.5f, 4));
}

TEST(Penalties, RepeatLooksBackOverPromptAndReply) {
  SamplingParams params = Off();
  params.repeat_penalty = 2;
  params.repeat_last_n = 3;
  Penalties penalties(params, 5);
  penalties.AcceptPrompt(std::vector<uint32_t>{0, 1, 2, 2});
  EXPECT_THAT(Applied(penalties, {4, 4, -4, 4, 0}), ElementsAre(4, 2, -8, 4, 0));
  penalties.Accept(3);  // 2 2 3
  EXPECT_THAT(Applied(penalties, {4, 4, -4, 4, 0}), ElementsAre(4, 4, -8, 2, 0));
  penalties.Accept(3);  // 2 3 3
  penalties.Accept(3);
  EXPECT_THAT(Applied(penalties, {4, 4, -4, 4, 0}), ElementsAre(4, 4, -4, 2, 0));

  params.repeat_last_n = -1;
  Penalties all(params, 5);
  all.AcceptPrompt(std::vector<uint32_t>{0, 1, 2, 9});
  for (int i = 0; i < 1000; ++i) all.Accept(3);
  EXPECT_THAT(Applied(all, {4, 4, 4, 4, 4}), ElementsAre(2, 2, 2, 2, 4));

  params.repeat_last_n = 0;
  Penalties none(params, 5);
  none.AcceptPrompt(std::vector<uint32_t>{0, 1});
  EXPECT_THAT(Applied(none, {4, 4, 4, 4, 4}), ElementsAre(4, 4, 4, 4, 4));
}

// The order that the header states, written down plainly: another order gives other bits.
TEST(Penalties, OrderAndRoundingAreThoseOfTheHeader) {
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> value(-9, 9), factor(0.5f, 2);
  for (int round = 0; round < 300; ++round) {
    const size_t vocab = rng() % 40 + 1;
    SamplingParams params = Off();
    params.presence_penalty = value(rng);
    params.frequency_penalty = value(rng);
    params.repeat_penalty = factor(rng);
    params.repeat_last_n = static_cast<int64_t>(rng() % 20) - 1;
    const auto biased = static_cast<uint32_t>(rng() % vocab);
    params.logit_bias = {{biased, value(rng)}};
    std::vector<uint32_t> prompt(rng() % 12), all, reply;
    for (uint32_t& id : prompt) id = static_cast<uint32_t>(rng() % vocab);
    all = prompt;
    Penalties penalties(params, vocab);
    penalties.AcceptPrompt(prompt);
    for (size_t n = rng() % 12; n > 0; --n) {
      reply.push_back(static_cast<uint32_t>(rng() % vocab));
      all.push_back(reply.back());
      penalties.Accept(reply.back());
    }
    std::vector<float> logits(vocab);
    for (float& x : logits) x = value(rng);
    std::vector<float> expected = logits;
    const size_t window = params.repeat_last_n < 0
                              ? all.size()
                              : std::min(all.size(), static_cast<size_t>(params.repeat_last_n));
    for (uint32_t id = 0; id < vocab; ++id) {
      float& x = expected[id];
      if (id == biased) x += params.logit_bias[0].bias;
      if (std::count(all.end() - static_cast<ptrdiff_t>(window), all.end(), id) > 0) {
        x = x > 0 ? x / params.repeat_penalty : x * params.repeat_penalty;
      }
      const auto count = std::count(reply.begin(), reply.end(), id);
      if (count == 0) continue;
      const float product = params.frequency_penalty * static_cast<float>(count);
      x = x - product;
      x = x - params.presence_penalty;
    }
    ASSERT_EQ(Applied(penalties, logits), expected) << "round " << round;
  }
}

TEST(Penalties, SamplerObeysThem) {
  const std::vector<float> logits = {5, 4, 3, 2};
  SamplingParams params = Off();
  params.logit_bias = {{0, -100}};
  EXPECT_EQ(Sampler(params, 4).Sample(logits), 1u);
  params.logit_bias = {{3, 100}};
  EXPECT_EQ(Sampler(params, 4).Sample(logits), 3u);
  params.logit_bias.clear();
  params.repeat_penalty = 3;
  Sampler sampler(params, 4);
  sampler.AcceptPrompt(std::vector<uint32_t>{0, 1});
  EXPECT_EQ(sampler.Sample(logits), 2u);
}

TEST(Penalties, Sanitized) {
  SamplingParams params;
  params.frequency_penalty = params.repeat_penalty = std::numeric_limits<float>::quiet_NaN();
  params.repeat_last_n = -7;
  params.logit_bias = {{1, std::numeric_limits<float>::infinity()}, {2, 1}};
  const SamplingParams clean = params.Sanitized();
  EXPECT_EQ(clean.frequency_penalty, 0);
  EXPECT_EQ(clean.repeat_penalty, 1);
  EXPECT_EQ(clean.repeat_last_n, -1);
  EXPECT_THAT(clean.logit_bias, ElementsAre(TokenBias{2, 1}));
  params.repeat_penalty = 0;
  EXPECT_EQ(params.Sanitized().repeat_penalty, 1) << "would divide by zero";
}

}  // namespace
}  // namespace slotstream::generate
