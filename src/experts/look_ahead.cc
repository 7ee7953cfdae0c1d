#include "experts/look_ahead.h"

#include <algorithm>

namespace slotstream::experts {
namespace {

// A guess is read when as many of its place were right: a right one saves the wait for a read, a
// wrong one costs at most the rest of a read that is under way when something is really needed.
constexpr double kWorthReading = 0.4;
// Before so many guesses of a place were judged none is read.
constexpr uint32_t kFewest = 6;
// So many guesses back the record of a place weighs half: conversations change.
constexpr uint32_t kMemory = 64;
// A layer that does not pay is asked again every so many tokens.
constexpr uint32_t kPause = 8;

}  // namespace

bool LookAhead::WorthReading(const Record& record) {
  return record.guesses >= kFewest &&
         static_cast<double>(record.right) >= kWorthReading * static_cast<double>(record.guesses);
}

bool LookAhead::Due(uint32_t layer) {
  Layer& state = layers_[layer];
  if (state.pays || ++state.passed_over >= kPause) {
    state.passed_over = 0;
    return true;
  }
  return false;
}

std::span<const uint32_t> LookAhead::Choose(uint32_t layer, std::span<const uint32_t> ranked,
                                            const SlotPool& pool) {
  guessed_layer_ = layer;
  guesses_.clear();
  chosen_.clear();
  Layer& state = layers_[layer];
  for (size_t rank = 0; rank < ranked.size(); ++rank) {
    if (pool.Find({layer, ranked[rank]}) >= 0) continue;
    const auto place = static_cast<uint32_t>(rank * kPlaces / ranked.size());
    guesses_.push_back({ranked[rank], place});
    if (WorthReading(state.places[place])) chosen_.push_back(ranked[rank]);
  }
  stats_.guesses += guesses_.size();
  stats_.read += chosen_.size();
  return chosen_;
}

void LookAhead::Judge(uint32_t layer, std::span<const ExpertNeed> needs) {
  if (layer != guessed_layer_) return;
  guessed_layer_ = UINT32_MAX;
  Layer& state = layers_[layer];
  for (const Guess& guess : guesses_) {
    Record& record = state.places[guess.place];
    if (record.guesses == kMemory) record = {kMemory / 2, record.right / 2};
    ++record.guesses;
    if (std::ranges::find(needs, guess.expert, &ExpertNeed::expert) == needs.end()) continue;
    ++record.right;
    ++stats_.right;
  }
  // Where the pool lacks nothing that is likely, a read saves nothing.
  state.pays = !guesses_.empty() && std::ranges::any_of(state.places, [](const Record& record) {
    return record.guesses < kFewest || WorthReading(record);
  });
}

}  // namespace slotstream::experts
