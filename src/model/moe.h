// Mixture of experts: a router picks experts per token, a shared one always runs.
//
//   p = softmax(Wr x); I = the k highest p (ties: the lower expert); w = p over I, divided by its
//   sum if norm_topk_prob
//   y = sum over I, in order of rank, of w_e Wdown_e (silu(Wgate_e x) * Wup_e x)
//       + sigmoid(w_s . x) * shared expert of x
//
// Tokens are grouped by expert, experts come from the store in whatever order they are ready, and
// the results are added in order of rank.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"
#include "experts/expert_store.h"
#include "model/arena.h"
#include "model/products.h"
#include "model/weights.h"

namespace slotstream::model {

// Who goes to which expert, for the rows of a pass.
class Routing {
 public:
  // From probabilities [rows, experts].
  void Assign(ConstRows probabilities, size_t rows, size_t experts, size_t top_k, bool normalise);

  std::span<const experts::ExpertNeed> needs() const { return needs_; }  // by rising expert
  // Rows of the i-th need; their results go to places [place(i), place(i) + its rows).
  std::span<const uint32_t> rows(size_t need) const {
    return {grouped_rows_.data() + begin_[need], begin_[need + 1] - begin_[need]};
  }
  size_t place(size_t need) const { return begin_[need]; }
  // Of the rank-th choice of row r.
  uint32_t place(size_t r, size_t rank) const { return place_[r * top_k_ + rank]; }
  float weight(size_t r, size_t rank) const { return weight_[r * top_k_ + rank]; }
  uint32_t expert(size_t r, size_t rank) const { return expert_[r * top_k_ + rank]; }
  std::span<const uint32_t> experts() const { return expert_; }  // [rows, top_k], by rank

 private:
  size_t top_k_ = 0;
  std::vector<uint32_t> expert_;  // [rows, top_k], by rank
  std::vector<float> weight_;     // [rows, top_k]
  std::vector<uint32_t> place_;   // [rows, top_k]
  std::vector<experts::ExpertNeed> needs_;
  std::vector<size_t> begin_;  // [needs + 1]
  std::vector<uint32_t> grouped_rows_;
  std::vector<uint32_t> order_, count_;
};

// y [rows, H] from x [rows, H]. `meanwhile` runs once the routing is known and the layer's reads
// are on their way. Errors are the store's; y is then unspecified.
Status RunMoe(Compute& compute, const checkpoint::ModelConfig& config, const MoeWeights& weights,
              experts::ExpertStore& store, uint32_t layer, bool admit, ConstRows x, size_t rows,
              Routing& routing, const std::function<void()>& meanwhile, MutableRows y, Arena arena);

size_t MoeScratch(const checkpoint::ModelConfig& config, const checkpoint::ExpertShape& shape,
                  kernels::ComputeMode mode, size_t rows);

}  // namespace slotstream::model
