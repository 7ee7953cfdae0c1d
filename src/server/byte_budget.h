// Memory that may be held together, shared out among those who ask.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace slotstream::server {

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t most) : most_(most) {}

  // Holds `bytes` as long as what is returned lives, which may be longer than this; null: with
  // what others hold they don't fit.
  std::shared_ptr<void> Take(uint64_t bytes);
  uint64_t held() const { return *held_; }

 private:
  const uint64_t most_;
  const std::shared_ptr<std::atomic<uint64_t>> held_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace slotstream::server
