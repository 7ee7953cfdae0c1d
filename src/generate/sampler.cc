#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/kernels.h"

namespace slotstream::generate {
namespace {

constexpr uint64_t kStateForSeedZero = 0xDEADBEEF;
constexpr uint64_t kStateWithoutSeed = 0x9E3779B97F4A7C15;

// Beyond this many the heap of the k highest loses to nth_element on a copy.
constexpr size_t kHeapTopK = 256;

// (c + p) - p in float32 differs from c by at most 2 roundings of numbers up to 1 (2^-23 in all),
// so past top_p by this much no later token can stay.
constexpr float kTopPMargin = 1e-6f;

// The lowest id of the highest value; NaN counts as lower than everything.
uint32_t ArgMax(std::span<const float> values) {
  uint32_t best = 0;
  float highest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > highest) {
      highest = values[i];
      best = static_cast<uint32_t>(i);
    }
  }
  return best;
}

// The k-th highest of `values`, 0 < k < values.size().
float KthHighest(std::span<const float> values, size_t k, std::vector<float>& work) {
  if (k > kHeapTopK) {
    work.assign(values.begin(), values.end());
    std::nth_element(work.begin(), work.begin() + static_cast<ptrdiff_t>(k - 1), work.end(),
                     std::greater<>());
    return work[k - 1];
  }
  work.assign(values.begin(), values.begin() + static_cast<ptrdiff_t>(k));
  std::make_heap(work.begin(), work.end(), std::greater<>());  // the lowest of the k in front
  for (float value : values.subspan(k)) {
    if (value <= work.front()) continue;
    std::pop_heap(work.begin(), work.end(), std::greater<>());
    work.back() = value;
    std::push_heap(work.begin(), work.end(), std::greater<>());
  }
  return work.front();
}

}  // namespace

uint64_t SplitMix64(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

Sampler::Sampler(const SamplingParams& params, size_t vocab_size)
    : params_(params), vocab_size_(vocab_size), penalties_(params, vocab_size) {
  state_ = params.seed.value_or(kStateWithoutSeed);
  if (params.seed == 0u) state_ = kStateForSeedZero;
}

uint32_t Sampler::Sample(std::span<const float> padded_logits) {
  const auto logits = padded_logits.first(std::min(padded_logits.size(), vocab_size_));
  scaled_.assign(logits.begin(), logits.end());
  penalties_.Apply(scaled_);
  if (params_.temperature <= 0) return ArgMax(scaled_);

  const float u = NextUniform();
  for (float& value : scaled_) value /= params_.temperature;
  if (!Collect(scaled_)) return ArgMax(logits);
  const float highest = Softmax();
  if (!(highest > 0)) return ArgMax(logits);
  if (params_.top_p < 1) KeepTopP();
  if (params_.min_p > 0) KeepMinP();
  return Pick(u, logits);
}

// Fills candidates_ with what top-k leaves. False where softmax would meet NaN or an infinity.
bool Sampler::Collect(std::span<const float> values) {
  candidates_.clear();
  float highest = -std::numeric_limits<float>::infinity();
  for (float value : values) {
    if (std::isnan(value)) return false;
    highest = std::max(highest, value);
  }
  if (!std::isfinite(highest)) return false;
  float threshold = -std::numeric_limits<float>::infinity();
  const auto k = static_cast<size_t>(params_.top_k);
  if (k > 0 && k < values.size()) threshold = KthHighest(values, k, heap_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= threshold)
      candidates_.push_back({static_cast<uint32_t>(i), values[i] - highest});
  }
  return true;
}

// Differences from the highest logit become probabilities; returns the highest of them.
float Sampler::Softmax() {
  exps_.clear();
  for (const Candidate& candidate : candidates_) exps_.push_back(candidate.value);
  // All tables give the same bits; without top-k these are a quarter of a million.
  kernels::AvailableKernels().back()->exp(exps_.data(), exps_.size());
  float sum = 0;
  for (float value : exps_) sum += value;
  float highest = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    candidate.value = exps_[i] / sum;
    highest = std::max(highest, candidate.value);
  }
  return highest;
}

void Sampler::KeepTopP() {
  auto lower = [](const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value < b.value : a.id > b.id;
  };
  // A heap, because the tokens that stay are few among a quarter of a million.
  by_probability_ = candidates_;
  std::make_heap(by_probability_.begin(), by_probability_.end(), lower);
  candidates_.clear();
  float sum = 0;
  while (!by_probability_.empty() && sum < params_.top_p + kTopPMargin) {
    std::pop_heap(by_probability_.begin(), by_probability_.end(), lower);
    const Candidate top = by_probability_.back();
    by_probability_.pop_back();
    sum += top.value;
    if (sum - top.value < params_.top_p) candidates_.push_back(top);
  }
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

void Sampler::KeepMinP() {
  float highest = 0;
  for (const Candidate& candidate : candidates_) highest = std::max(highest, candidate.value);
  const float cutoff = highest * params_.min_p;
  std::erase_if(candidates_, [cutoff](const Candidate& c) { return c.value < cutoff; });
}

uint32_t Sampler::Pick(float u, std::span<const float> logits) const {
  float total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.value;
  if (!std::isfinite(total) || total <= 0) return ArgMax(logits);
  const float target = u * total;
  float sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.value;
    // A target of zero is reached by the first token that has any probability.
    if (target > 0 ? sum >= target : sum > 0) return candidate.id;
  }
  // Unreachable for u <= 1, as the last sum is the total.
  return static_cast<uint32_t>(logits.size() - 1);
}

float Sampler::NextUniform() {
  state_ = SplitMix64(state_ + 1);
  return static_cast<float>(static_cast<double>(state_ >> 11) * 0x1p-53);
}

}  // namespace slotstream::generate
