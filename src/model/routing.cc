#include <algorithm>
#include <numeric>

#include "model/moe.h"

namespace slotstream::model {

void Routing::Assign(ConstRows probabilities, size_t rows, size_t experts, size_t top_k,
                     bool normalise) {
  top_k_ = top_k;
  expert_.resize(rows * top_k);
  weight_.resize(rows * top_k);
  place_.resize(rows * top_k);
  order_.resize(experts);
  count_.assign(experts, 0);
  for (size_t r = 0; r < rows; ++r) {
    const float* p = probabilities.row(r);
    std::iota(order_.begin(), order_.end(), 0u);
    std::partial_sort(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(top_k), order_.end(),
                      [p](uint32_t a, uint32_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
    float sum = 0.0f;
    for (size_t rank = 0; rank < top_k; ++rank) sum += p[order_[rank]];
    for (size_t rank = 0; rank < top_k; ++rank) {
      const uint32_t expert = order_[rank];
      expert_[r * top_k + rank] = expert;
      weight_[r * top_k + rank] = normalise ? p[expert] / sum : p[expert];
      ++count_[expert];
    }
  }

  needs_.clear();
  begin_.assign(1, 0);
  for (uint32_t expert = 0; expert < experts; ++expert) {
    if (count_[expert] == 0) continue;
    needs_.push_back({expert, count_[expert]});
    begin_.push_back(begin_.back() + count_[expert]);
    count_[expert] = static_cast<uint32_t>(begin_[begin_.size() - 2]);  // next free place
  }
  grouped_rows_.resize(rows * top_k);
  for (size_t i = 0; i < rows * top_k; ++i) {
    place_[i] = count_[expert_[i]]++;
    grouped_rows_[place_[i]] = static_cast<uint32_t>(i / top_k);
  }
}

}  // namespace slotstream::model
