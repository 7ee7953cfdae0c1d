// A backend that misbehaves by plan, to prove that what stands above it keeps its promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "io/backend.h"

namespace slotstream::io {

enum class FaultKind {
  kShortRead,     // fewer bytes than asked, at least one
  kZeroRead,      // no bytes, as at the end of a file
  kInterrupted,   // EINTR
  kTryAgain,      // EAGAIN
  kIoError,       // EIO
  kLate,          // runs once nothing else is left to deliver, so its memory is written late
  kReordered,     // completes at a random place among its neighbours
  kFlippedBit,    // one wrong bit, no error
  kZeroedPage,    // 4 KiB of zeros, no error
  kTruncated,     // from now on this file ends inside this read
  kDeviceGone,    // ENODEV for this and every later read
  kStartRefused,  // Start fails for the whole span that holds this read
};

// `kind` strikes reads first_read, ..., first_read + count - 1 (counted from 0 in the order of
// Start, retries included), each with `probability`. Where several faults fit a read, the first
// listed does.
struct Fault {
  static constexpr uint64_t kEveryLater = std::numeric_limits<uint64_t>::max();

  FaultKind kind = FaultKind::kIoError;
  uint64_t first_read = 0;
  uint64_t count = 1;
  double probability = 1.0;
};

// Wraps another backend. Deterministic: the same reads, plan and seed give the same results in the
// same order whatever the wrapped backend, since Reap first collects every read in flight (it may
// therefore block a moment even without `wait`). Bytes that a fault leaves undelivered are
// overwritten with 0xdb: nobody may rely on them.
class FaultyBackend : public ReadBackend {
 public:
  FaultyBackend(std::unique_ptr<ReadBackend> inner, std::vector<Fault> plan, uint64_t seed);

  std::string_view name() const override { return "faulty"; }
  size_t depth() const override { return inner_->depth(); }
  Status Start(std::span<const BackendRead> reads) override;
  size_t Reap(std::span<BackendResult> out, bool wait) override;
  // Returns at once: Reap blocks in its place.
  void WaitReady() override {}

  // Appends to the plan; `first_read` still counts from the first read ever.
  void AddFault(const Fault& fault) { plan_.push_back(fault); }

  // Reads asked for, and those that a fault struck.
  uint64_t reads() const { return reads_; }
  uint64_t faults() const { return faults_; }

 private:
  struct Pending {
    BackendRead read;
    std::optional<FaultKind> fault;
    uint64_t dice = 0;  // the fault's own random bits
  };

  Pending Draw(const BackendRead& read);
  void Collect(std::vector<Pending>& reads);
  int64_t Distort(const Pending& pending, int64_t result);

  std::unique_ptr<ReadBackend> inner_;
  std::vector<Fault> plan_;
  std::mt19937_64 rng_;
  uint64_t reads_ = 0;
  uint64_t faults_ = 0;
  bool device_gone_ = false;
  std::map<const File*, uint64_t> early_end_;  // where truncated files end
  std::vector<Pending> started_;               // in the order of Start
  std::vector<Pending> late_;                  // not given to inner_ yet
  std::deque<BackendResult> ready_;            // in the order of delivery
};

}  // namespace slotstream::io
