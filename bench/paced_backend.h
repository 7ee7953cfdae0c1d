// A slower disk than this machine's: reads go to another backend and come back no sooner than a
// disk of the given rate would have them. Time in which it had nothing to do is lost, as on a real
// disk (a control group's throttle lets a process save it up).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/backend.h"

namespace slotstream::bench {

class PacedBackend : public io::ReadBackend {
 public:
  // `rate` in bytes a second.
  PacedBackend(std::unique_ptr<io::ReadBackend> inner, double rate)
      : inner_(std::move(inner)), rate_(rate), results_(inner_->depth()) {}

  std::string_view name() const override { return "paced"; }
  size_t depth() const override { return inner_->depth(); }
  Status Start(std::span<const io::BackendRead> reads) override;
  size_t Reap(std::span<io::BackendResult> out, bool wait) override;
  void WaitReady() override;

 private:
  struct Landed {
    io::BackendResult result;
    uint64_t due = 0;  // nanoseconds
  };

  void TakeLanded();

  std::unique_ptr<io::ReadBackend> inner_;
  double rate_;
  std::vector<io::BackendResult> results_;
  std::deque<Landed> landed_;  // only the reaping thread's
  std::mutex mutex_;           // of the two below
  uint64_t busy_until_ = 0;
  std::unordered_map<uint64_t, uint64_t> due_;  // of reads in flight, by id
};

// This machine's way of reading, as slow as a disk of `gb_s` GB/s; 0: as fast as it is.
Result<std::unique_ptr<io::ReadBackend>> MakePacedBackend(size_t depth, double gb_s);

}  // namespace slotstream::bench
