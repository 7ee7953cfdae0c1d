// How far a state that is being read has come: between the thread that reads it and the pass that
// goes on from it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/result.h"

namespace slotstream::state {

// Opens layer by layer, in their order, or breaks. One thread opens, one waits; the rest is safe
// from any.
class LayerGate {
 public:
  // `clock` must outlive it.
  explicit LayerGate(const Clock& clock) : clock_(clock) {}

  // The layers [0, layers) are there; never fewer than before.
  void OpenTo(uint32_t layers);
  // What is missing will never come. Of several errors the first stays.
  void Break(Error error);

  // Returns when `layer` is there. Errors: what broke it, for layers that are there too, so that
  // nobody goes on in vain; kCancelled soon after `cancel` (may be null) was set.
  Status Wait(uint32_t layer, const std::atomic<bool>* cancel);

  // Somebody is blocked in Wait.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  uint64_t waited_nanos() const;
  std::optional<Error> broken() const;

 private:
  const Clock& clock_;
  std::atomic<bool> wanted_ = false;
  mutable std::mutex mutex_;  // for all below
  std::condition_variable moved_;
  uint32_t open_ = 0;
  std::optional<Error> broken_;
  uint64_t waited_nanos_ = 0;
};

}  // namespace slotstream::state
