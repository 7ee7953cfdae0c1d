#include "generate/penalties.h"

#include <algorithm>
#include <limits>

namespace slotstream::generate {
namespace {

size_t Window(const SamplingParams& params) {
  if (params.repeat_penalty == 1) return 0;
  if (params.repeat_last_n < 0) return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(params.repeat_last_n);
}

}  // namespace

Penalties::Penalties(const SamplingParams& params, size_t vocab_size)
    : repeat_(params.repeat_penalty),
      frequency_(params.frequency_penalty),
      presence_(params.presence_penalty),
      window_(Window(params)),
      vocab_size_(vocab_size),
      biases_(params.logit_bias) {}

void Penalties::AcceptPrompt(std::span<const uint32_t> ids) {
  for (uint32_t id : ids.last(std::min(window_, ids.size()))) Remember(id);
}

void Penalties::Accept(uint32_t id) {
  Remember(id);
  if (id < vocab_size_ && (frequency_ != 0 || presence_ != 0)) ++counts_[id];
}

void Penalties::Remember(uint32_t id) {
  if (window_ == 0) return;
  recent_.push_back(id);
  ++recent_counts_[id];
  if (recent_.size() <= window_) return;
  const auto oldest = recent_counts_.find(recent_.front());
  if (--oldest->second == 0) recent_counts_.erase(oldest);
  recent_.pop_front();
}

void Penalties::Apply(std::span<float> logits) const {
  for (const TokenBias& bias : biases_) {
    if (bias.id < logits.size()) logits[bias.id] += bias.bias;
  }
  for (const auto& [id, count] : recent_counts_) {
    if (id >= logits.size()) break;
    float& logit = logits[id];
    logit = logit > 0 ? logit / repeat_ : logit * repeat_;
  }
  for (const auto& [id, count] : counts_) {
    if (id >= logits.size()) break;
    logits[id] -= frequency_ * static_cast<float>(count);
    logits[id] -= presence_;
  }
}

}  // namespace slotstream::generate
