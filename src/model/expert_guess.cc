#include "model/expert_guess.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "model/hyper_connection.h"

namespace slotstream::model {
namespace {

// Of experts that no sampled token named, so large a part must be needed before they are read
// ahead: the disk would be idle, but a record in vain holds a frame and makes the next needed one
// wait.
constexpr double kLikely = 0.75;

struct Buffers {
  Buffers(Arena& arena, const checkpoint::ModelConfig& config, size_t rows)
      : x{arena.Take(rows * config.hidden_size), config.hidden_size},
        inject{arena.Take(rows * config.hc_count), config.hc_count},
        logits{arena.Take(rows * config.num_experts), config.num_experts} {}
  MutableRows x, inject, logits;
};

// The `count` highest, the highest first.
void Rank(const float* logits, size_t experts, size_t count, std::vector<uint32_t>& ranked) {
  ranked.resize(experts);
  std::iota(ranked.begin(), ranked.end(), 0u);
  count = std::min(count, experts);
  std::ranges::partial_sort(ranked, ranked.begin() + static_cast<ptrdiff_t>(count),
                            [logits](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  ranked.resize(count);
}

}  // namespace

size_t ExpertGuessScratch(const checkpoint::ModelConfig& config, size_t rows) {
  Arena counter;
  Buffers(counter, config, rows);
  return counter.used() + HyperConnectionScratch(config, rows);
}

void GuessExperts(Compute& compute, const checkpoint::ModelConfig& config,
                  const LayerWeights& layer, ConstRows residual, size_t rows, size_t per_row,
                  std::vector<uint32_t>& ranked, Arena arena) {
  const Buffers buffers(arena, config, rows);
  ReadStreams(compute, config, layer.mlp_site, residual, rows, buffers.x, buffers.inject, arena);
  compute.Run(buffers.x, config.hidden_size, rows, {{layer.moe.router, buffers.logits}});
  if (rows == 1) return Rank(buffers.logits.row(0), config.num_experts, per_row, ranked);

  std::vector<uint32_t> choosers(config.num_experts);
  for (size_t r = 0; r < rows; ++r) {
    Rank(buffers.logits.row(r), config.num_experts, per_row, ranked);
    for (uint32_t expert : ranked) ++choosers[expert];
  }
  ranked.clear();
  for (uint32_t expert = 0; expert < config.num_experts; ++expert) {
    if (choosers[expert] > 0) ranked.push_back(expert);
  }
  std::ranges::stable_sort(ranked, std::greater(), [&](uint32_t e) { return choosers[e]; });
}

void AddTheRest(size_t experts, size_t needed, std::vector<uint32_t>& ranked) {
  const size_t others = experts - ranked.size();
  if (needed <= ranked.size()) return;
  if (static_cast<double>(needed - ranked.size()) < kLikely * static_cast<double>(others)) return;
  std::vector<bool> named(experts);
  for (const uint32_t expert : ranked) named[expert] = true;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    if (!named[expert]) ranked.push_back(expert);
  }
}

}  // namespace slotstream::model
