// What moves single logits before a token is chosen: biases, and penalties of what was there
// before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "generate/sampling_params.h"

namespace slotstream::generate {

// Belongs to one sequence.
class Penalties {
 public:
  // `params` sanitized. Ids from `vocab_size` on are passed over.
  Penalties(const SamplingParams& params, size_t vocab_size);

  // The prompt, before the first token of the reply: it counts for the repeat penalty alone.
  void AcceptPrompt(std::span<const uint32_t> ids);
  // A token of the reply.
  void Accept(uint32_t id);

  // Changes `logits` [at most vocab_size], each operation rounded to float32, for every id:
  //  1. + its logit_bias
  //  2. repeat_penalty, if it is among the last repeat_last_n tokens of prompt and reply: a
  //     positive logit is divided by it, another multiplied (Keskar et al., "CTRL", 2019)
  //  3. - frequency_penalty times its count in the reply, if that is not 0
  //  4. - presence_penalty, if it is in the reply
  void Apply(std::span<float> logits) const;

 private:
  void Remember(uint32_t id);

  float repeat_, frequency_, presence_;
  size_t window_;  // 0: nothing is remembered
  size_t vocab_size_;
  std::vector<TokenBias> biases_;
  std::deque<uint32_t> recent_;                 // the window's tokens, the oldest first
  std::map<uint32_t, uint32_t> recent_counts_;  // of recent_
  std::map<uint32_t, uint32_t> counts_;         // of the reply
};

}  // namespace slotstream::generate
