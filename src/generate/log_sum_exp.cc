#include "generate/log_sum_exp.h"

#include <algorithm>
#include <cmath>

namespace slotstream::generate {

LogSumExp::LogSumExp(std::span<const float> logits) : highest(*std::ranges::max_element(logits)) {
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - highest);
  log_rest = std::log(sum);
}

}  // namespace slotstream::generate
