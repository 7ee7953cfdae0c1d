// What the tensors of a synthetic checkpoint are drawn like: of a trained model's magnitudes, so
// that activations stay near one through all layers, and shaped so that experts are chosen as
// text makes a trained router choose them.
//
// The shape lies in the hidden values. By their index modulo 8 they are
//
//   constant (0)      put there by the embeddings, the same for every token; no block writes here
//   slow (1 to 4)     written by the mixers alone, whose gated delta nets are made running means
//                     of what the tokens bring, over a few tokens
//   fresh (5 to 7)    the token's own embedding, its n-grams, and what the experts add
//
// so that a router's logits are a sum of two parts: one that changes slowly, about a mean that
// never changes (neighbouring tokens choose alike, some experts are popular), and one of the token
// alone. `skew` scales the first against the second. docs/SYNTHETIC.md has the hit rates.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/random_weights.h"
#include "checkpoint/resident.h"

namespace slotstream::checkpoint {

class WeightRecipes {
 public:
  // `config` must outlive this. `skew` >= 0; 1 is the published model's. The head gives
  // `quiet_ids`, all below the vocabulary's size, logits of zero, far below the best ones.
  WeightRecipes(const ModelConfig& config, double skew, std::vector<uint32_t> quiet_ids)
      : config_(config), skew_(skew), quiet_ids_(std::move(quiet_ids)) {}

  // By a tensor's storage: kPanels, kRows, and kBf16 or kFloat32.
  PanelRecipe Panels(const ResidentTensor& tensor) const;
  RowRecipe Embeddings() const;
  ValueRecipe Values(const ResidentTensor& tensor) const;
  // Of a routed expert.
  PanelRecipe ExpertInner(const PanelShape& shape) const;  // gate and up
  PanelRecipe ExpertDown(const PanelShape& shape) const;
  RowRecipe NgramRows() const;

 private:
  // Sizes (root mean squares) of the residual streams at some depth.
  struct Residual {
    double slow = 0, fresh = 0, all = 0;
  };
  Residual BeforeMixer(std::string_view tensor) const;
  Residual AfterMixer(std::string_view tensor) const;
  Residual Of(uint32_t mixers, uint32_t experts) const;
  uint32_t Mixers(uint32_t layers) const;

  void ShapeDeltaNetInput(PanelRecipe& recipe, std::string_view name) const;
  void ShapeDeltaNetOutput(PanelRecipe& recipe, const ResidentTensor& tensor) const;
  ValueRecipe Router(const ResidentTensor& tensor) const;
  ValueRecipe UpdateGate(const ResidentTensor& tensor) const;
  double TokensRemembered(uint32_t value_head) const;

  const ModelConfig& config_;
  double skew_;
  std::vector<uint32_t> quiet_ids_;
};

}  // namespace slotstream::checkpoint
