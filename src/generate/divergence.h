// How far apart the next-token distributions of two runs over one text are.
//
// Everything is in double precision: between close modes the divergences are far below what float32
// resolves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace slotstream::generate {

// out[i] = log of the softmax of `logits` at i, in nats; as many as `logits`. Equal logits give
// equal bits. kCorrupt names the first logit that is infinite or a NaN.
Status LogSoftmax(std::span<const float> logits, std::span<double> out);

// KL(P || Q) = sum of p (log p - log q) in nats, from log-probabilities of the same ids; never
// negative, and 0 for equal ones.
//
// Summed as p (q/p - 1 - log(q/p)), which is the same because p and q both sum to 1: no term is
// negative, so that a small divergence isn't what is left of large terms that cancel.
double KlDivergence(std::span<const double> log_p, std::span<const double> log_q);

// The smallest of `values` that `share` of them, 0 to 1, do not exceed (nearest rank); 0 for none.
double Percentile(std::vector<double> values, double share);

// The divergences of all positions of a text.
class Divergence {
 public:
  // One position; P is the distribution that is compared with.
  void Add(std::span<const double> log_p, std::span<const double> log_q);

  size_t positions() const { return kl_.size(); }
  // Of no positions: 0, and agreement 1.
  double MeanKl() const;
  double PercentileKl(double share) const { return Percentile(kl_, share); }
  // The share of positions whose likeliest token, of equals the lowest id, is the same.
  double Top1Agreement() const;

 private:
  std::vector<double> kl_;
  size_t agreeing_ = 0;
};

// exp of the mean surprise at the tokens that came.
class Perplexity {
 public:
  void Add(double log_probability) {
    sum_ += log_probability;
    ++tokens_;
  }
  // 1 for no tokens.
  double Value() const;

 private:
  double sum_ = 0;
  size_t tokens_ = 0;
};

}  // namespace slotstream::generate
