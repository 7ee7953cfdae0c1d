#include "generate/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/log_sum_exp.h"

namespace slotstream::generate {
namespace {

// Below this |log(q/p)| the difference of p and q is taken from expm1, which keeps its digits.
constexpr double kClose = 1.0;

ptrdiff_t Top(std::span<const double> log_p) {
  return std::ranges::max_element(log_p) - log_p.begin();
}

}  // namespace

Status LogSoftmax(std::span<const float> logits, std::span<double> out) {
  const auto broken =
      std::ranges::find_if(logits, [](float logit) { return !std::isfinite(logit); });
  if (broken != logits.end()) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("the logit of token {} is {}", broken - logits.begin(), *broken));
  }
  const LogSumExp sum(logits);
  for (size_t i = 0; i < logits.size(); ++i) out[i] = sum.LogProbability(logits[i]);
  return {};
}

double KlDivergence(std::span<const double> log_p, std::span<const double> log_q) {
  double sum = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double ratio = log_q[i] - log_p[i];
    const double p = std::exp(log_p[i]);
    // p = 0 times an infinite exp(ratio) is kept apart by the second form.
    const double term = std::abs(ratio) < kClose ? p * (std::expm1(ratio) - ratio)
                                                 : std::exp(log_q[i]) - p - p * ratio;
    sum += std::max(term, 0.0);
  }
  return sum;
}

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t at = std::clamp<size_t>(static_cast<size_t>(rank), 1, values.size()) - 1;
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(at));
  return values[at];
}

void Divergence::Add(std::span<const double> log_p, std::span<const double> log_q) {
  kl_.push_back(KlDivergence(log_p, log_q));
  if (Top(log_p) == Top(log_q)) ++agreeing_;
}

double Divergence::MeanKl() const {
  if (kl_.empty()) return 0;
  return std::accumulate(kl_.begin(), kl_.end(), 0.0) / static_cast<double>(kl_.size());
}

double Divergence::Top1Agreement() const {
  if (kl_.empty()) return 1;
  return static_cast<double>(agreeing_) / static_cast<double>(kl_.size());
}

double Perplexity::Value() const {
  return tokens_ == 0 ? 1 : std::exp(-sum_ / static_cast<double>(tokens_));
}

}  // namespace slotstream::generate
