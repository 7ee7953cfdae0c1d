// A backend for tests that keeps results back.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "io/backend.h"

namespace slotstream::io {

// Results come only as far as the test lets them, in the order of `inner`; a FaultyBackend without
// faults has the order of the reads.
class HeldBackend final : public ReadBackend {
 public:
  struct Hand {
    void Let(size_t results) {
      std::lock_guard lock(mutex);
      let += results;
      moved.notify_all();
    }
    std::mutex mutex;
    std::condition_variable moved;
    size_t let = 0;
  };
  HeldBackend(std::unique_ptr<ReadBackend> inner, Hand& hand)
      : inner_(std::move(inner)), hand_(hand) {}
  std::string_view name() const override { return "held"; }
  size_t depth() const override { return inner_->depth(); }
  Status Start(std::span<const BackendRead> reads) override { return inner_->Start(reads); }
  size_t Reap(std::span<BackendResult> out, bool wait) override {
    std::unique_lock lock(hand_.mutex);
    if (wait) hand_.moved.wait(lock, [this] { return hand_.let > 0; });
    if (hand_.let == 0) return 0;
    const size_t count = inner_->Reap(out.first(1), wait);
    hand_.let -= count;
    return count;
  }
  void WaitReady() override { inner_->WaitReady(); }

 private:
  std::unique_ptr<ReadBackend> inner_;
  Hand& hand_;
};

}  // namespace slotstream::io
