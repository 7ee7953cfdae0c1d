#include "generate/sampling_params.h"

#include <algorithm>
#include <cmath>

namespace slotstream::generate {
namespace {

SamplingParams Make(float temperature, float top_p) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_p = top_p;
  params.presence_penalty = 0;
  return params;
}

}  // namespace

SamplingParams SamplingParams::Thinking() { return Make(1.0f, 0.95f); }
SamplingParams SamplingParams::Agent() { return Make(0.2f, 0.9f); }
SamplingParams SamplingParams::Greedy() { return Make(0.0f, 0.8f); }

SamplingParams SamplingParams::Sanitized() const {
  SamplingParams clean = *this;
  if (!std::isfinite(temperature) || temperature < 0) clean.temperature = 0;
  if (!std::isfinite(top_p) || top_p <= 0 || top_p > 1) clean.top_p = 1;
  clean.min_p = std::isfinite(min_p) ? std::clamp(min_p, 0.0f, 1.0f) : 0;
  if (!std::isfinite(presence_penalty)) clean.presence_penalty = 0;
  if (!std::isfinite(frequency_penalty)) clean.frequency_penalty = 0;
  if (!std::isfinite(repeat_penalty) || repeat_penalty <= 0) clean.repeat_penalty = 1;
  clean.repeat_last_n = std::max<int64_t>(repeat_last_n, -1);
  std::erase_if(clean.logit_bias, [](const TokenBias& b) { return !std::isfinite(b.bias); });
  clean.top_k = std::max<int64_t>(top_k, 0);
  clean.max_tokens = max_tokens <= 0 ? kMaxTokensCeiling : std::min(max_tokens, kMaxTokensCeiling);
  std::erase(clean.stop, std::string());
  return clean;
}

}  // namespace slotstream::generate
