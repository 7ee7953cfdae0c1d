// The denominator of a softmax, in logarithms.
#pragma once

#include <span>

namespace slotstream::generate {

// log of the sum of e^logit, in double precision and two parts: added up, they would lose what
// large logits have in common with it.
struct LogSumExp {
  // At least one logit, all finite.
  explicit LogSumExp(std::span<const float> logits);

  // Of the token that has this logit.
  double LogProbability(float logit) const { return logit - highest - log_rest; }

  double highest;   // of the logits
  double log_rest;  // log of the sum of e^(logit - highest)
};

}  // namespace slotstream::generate
