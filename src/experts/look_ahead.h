// Which guesses of the next layer's experts are worth a read before it is known what it needs.
//
// A layer's own router, applied one layer too early, names many of the experts that the layer will
// choose. Guesses are judged by what really comes: per layer and place in the ranking, how many of
// those that the pool did not hold were needed. Only guesses from places that were right often
// enough are read, and a layer where none is is asked less often. Everything is judged whether it
// was read or not, so what was given up is taken up again when it pays.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "experts/admission.h"
#include "experts/slot_pool.h"

namespace slotstream::experts {

struct LookAheadStats {
  uint64_t guesses = 0;  // candidates that the pool did not hold
  uint64_t right = 0;    // of these, that were needed
  uint64_t read = 0;     // of the guesses, that were worth a read
};

// Not thread-safe. Its choices are a matter of speed only.
class LookAhead {
 public:
  explicit LookAhead(uint32_t layers) : layers_(layers) {}

  // Whether guesses for `layer` are worth computing for this token.
  bool Due(uint32_t layer);
  // Those of `ranked`, the likeliest first, that the pool lacks and that are worth a read. Valid
  // until the next call.
  std::span<const uint32_t> Choose(uint32_t layer, std::span<const uint32_t> ranked,
                                   const SlotPool& pool);
  // What `layer` then needed; without a Choose for it before nothing is learnt.
  void Judge(uint32_t layer, std::span<const ExpertNeed> needs);

  const LookAheadStats& stats() const { return stats_; }

 private:
  static constexpr size_t kPlaces = 8;  // the ranking is judged in eighths

  struct Record {
    uint32_t guesses = 0;
    uint32_t right = 0;
  };
  struct Layer {
    std::array<Record, kPlaces> places;
    uint32_t passed_over = 0;  // tokens in a row without guesses
    bool pays = true;          // the last guesses, or too little is known
  };
  struct Guess {
    uint32_t expert;
    uint32_t place;
  };

  static bool WorthReading(const Record& record);

  std::vector<Layer> layers_;
  uint32_t guessed_layer_ = UINT32_MAX;
  std::vector<Guess> guesses_;  // for guessed_layer_, of experts that the pool lacked
  std::vector<uint32_t> chosen_;
  LookAheadStats stats_;
};

}  // namespace slotstream::experts
