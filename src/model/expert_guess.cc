#include "model/expert_guess.h"

#include <algorithm>
#include <numeric>

#include "model/hyper_connection.h"

namespace slotstream::model {
namespace {

struct Buffers {
  Buffers(Arena& arena, const checkpoint::ModelConfig& config)
      : x{arena.Take(config.hidden_size), config.hidden_size},
        inject{arena.Take(config.hc_count), config.hc_count},
        logits{arena.Take(config.num_experts), config.num_experts} {}
  MutableRows x, inject, logits;
};

}  // namespace

size_t ExpertGuessScratch(const checkpoint::ModelConfig& config) {
  Arena counter;
  Buffers(counter, config);
  return counter.used() + HyperConnectionScratch(config, 1);
}

void GuessExperts(Compute& compute, const checkpoint::ModelConfig& config,
                  const LayerWeights& layer, ConstRows residual, size_t count,
                  std::vector<uint32_t>& ranked, Arena arena) {
  const Buffers buffers(arena, config);
  ReadStreams(compute, config, layer.mlp_site, residual, 1, buffers.x, buffers.inject, arena);
  compute.Run(buffers.x, config.hidden_size, 1, {{layer.moe.router, buffers.logits}});
  ranked.resize(config.num_experts);
  std::iota(ranked.begin(), ranked.end(), 0u);
  count = std::min<size_t>(count, ranked.size());
  const float* logits = buffers.logits.row(0);
  std::ranges::partial_sort(ranked, ranked.begin() + static_cast<ptrdiff_t>(count),
                            [logits](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  ranked.resize(count);
}

}  // namespace slotstream::model
