// What a compute mode changes of what the model says, measured over a text.
//
// The text is cut into windows, each a sequence of its own. Every mode reads a window in whole
// passes, so that a window costs one sweep of the experts and not one for each few rows; of a pass
// only the residual streams after the last layer are kept. The head then gives the logits of a few
// rows at a time for all modes, which are compared and dropped. Weights are in memory once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/loaded_model.h"
#include "generate/divergence.h"

namespace slotstream::engine {

// Tokens of a window. 512 is the customary length for perplexity, and one prefill pass. Longer
// windows show more of attention's effect, and cost memory.
inline constexpr uint32_t kQualityWindow = 512;

struct QualityOptions {
  kernels::ComputeMode against = kernels::ComputeMode::kExact;
  std::vector<kernels::ComputeMode> tried;       // may name `against` too
  uint32_t window = kQualityWindow;              // at least 2
  const std::atomic<bool>* cancel = nullptr;     // as in model::Pass
  std::function<void(size_t, size_t)> progress;  // tokens read by all modes, and in all; or empty
};

struct ModeQuality {
  kernels::ComputeMode mode;
  generate::Divergence divergence;  // from the mode compared with
  generate::Perplexity perplexity;
};

struct QualityReport {
  size_t windows = 0;
  generate::Perplexity perplexity;  // of the mode compared with
  std::vector<ModeQuality> tried;   // in the order of the options
};

// What MeasureQuality needs of the plan.
void AddQualityWishes(const QualityOptions& options, plan::Wishes& wishes);

// Divergence counts every position of `ids`; perplexity every token but the windows' first ones.
// `loaded` was loaded with the wishes above and has a tokenizer: ids that have logits but no token
// do not count. Errors: kInvalidArgument (fewer than two ids, an id out of range), kCorrupt (logits
// that aren't finite), kCancelled, and those of passes.
Result<QualityReport> MeasureQuality(LoadedModel& loaded, std::span<const uint32_t> ids,
                                     const QualityOptions& options);

}  // namespace slotstream::engine
