#include "state/layer_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace slotstream::state {
namespace {

// Whoever cancels sets a flag and tells nobody, so a wait looks at it now and then. A person does
// not notice so much, and a hundred looks a second cost nothing.
constexpr auto kLookAtCancel = std::chrono::milliseconds(10);

}  // namespace

void LayerGate::OpenTo(uint32_t layers) {
  {
    std::lock_guard lock(mutex_);
    open_ = std::max(open_, layers);
  }
  moved_.notify_all();
}

void LayerGate::Break(Error error) {
  {
    std::lock_guard lock(mutex_);
    if (!broken_) broken_ = std::move(error);
  }
  moved_.notify_all();
}

Status LayerGate::Wait(uint32_t layer, const std::atomic<bool>* cancel) {
  std::unique_lock lock(mutex_);
  const auto moved = [&] { return open_ > layer || broken_; };
  if (!moved()) {
    wanted_.store(true, std::memory_order_relaxed);
    const uint64_t begin = clock_.NowNanos();
    while (!moved_.wait_for(lock, kLookAtCancel, moved)) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
    }
    waited_nanos_ += clock_.NowNanos() - begin;
    wanted_.store(false, std::memory_order_relaxed);
  }
  if (broken_) return std::unexpected(*broken_);
  if (open_ > layer) return {};
  return Fail(ErrorCode::kCancelled,
              fmt::format("cancelled while the stored state of layer {} was read", layer));
}

uint64_t LayerGate::waited_nanos() const {
  std::lock_guard lock(mutex_);
  return waited_nanos_;
}

std::optional<Error> LayerGate::broken() const {
  std::lock_guard lock(mutex_);
  return broken_;
}

}  // namespace slotstream::state
