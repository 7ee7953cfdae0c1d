// Batched asynchronous reads that complete exactly once, with all their bytes or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/backend.h"
#include "io/file.h"

namespace slotstream::io {

// `required` <= `length` bytes must arrive; the rest may lie past the end of the file, as when a
// direct read asks for the whole last page. On a direct file offset, length and destination are
// multiples of kDirectAlignment. `tag` is the caller's and need not be unique.
struct ReadRequest {
  const File* file = nullptr;
  uint64_t offset = 0;  // bytes from the start of the file
  std::byte* destination = nullptr;
  uint32_t length = 0;    // bytes
  uint32_t required = 0;  // bytes
  uint64_t tag = 0;
};

// On success the first `required` bytes of the destination are the file's; after an error its
// contents are unspecified. Errors name file and offset: kCorrupt (the file ends early), kIo,
// kResourceLimit, kInvalidArgument (a request that breaks the rules above).
struct ReadCompletion {
  uint64_t tag = 0;
  Status status;
};

struct ReadStats {
  uint64_t reads = 0;       // reads given to the backend, retries and continuations included
  uint64_t bytes = 0;       // bytes of requests that succeeded (`required` of each)
  uint64_t retries = 0;     // reads repeated after an error, an interruption or a short read
  uint64_t errors = 0;      // requests completed with an error
  uint64_t busy_nanos = 0;  // time with at least one read started and not collected
  uint64_t wait_nanos = 0;  // time blocked in Wait and Drain
};

// Any number of requests may be submitted: as many as the backend's depth are in flight, the rest
// follow in the order of submission. Completions come in any order.
//
// Files and destinations must live until the request's completion was handed out, or until Drain or
// the destructor has returned: no read outlives its buffers. One thread uses a queue at a time,
// WaitReady apart.
class ReadQueue {
 public:
  // `clock` outlives the queue.
  ReadQueue(std::unique_ptr<ReadBackend> backend, const Clock& clock);
  // Drains.
  ~ReadQueue();
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  // Never blocks and never fails: what cannot be read completes with an error.
  void Submit(std::span<const ReadRequest> requests);

  // Blocks until at least `min` completions (or all outstanding, if fewer) are there, appends all
  // that are ready to `out` and returns how many.
  size_t Wait(size_t min, std::vector<ReadCompletion>& out);

  // Wait without blocking.
  size_t Poll(std::vector<ReadCompletion>& out) { return Wait(0, out); }

  // Blocks until Poll is likely to find a completion, or nothing is in flight. May run beside
  // Submit on the thread that alone waits, polls and drains.
  void WaitReady() { backend_->WaitReady(); }

  // Requests submitted whose completions were not handed out yet.
  size_t outstanding() const { return active_ + ready_.size(); }

  // Abandons everything outstanding: requests not started never start, those in flight are waited
  // for, and no completion of either is handed out. Afterwards outstanding() is 0, no destination
  // will be touched, and the queue can be used again. This is how a caller cancels.
  void Drain();

  ReadStats stats() const;
  std::string_view backend_name() const { return backend_->name(); }
  size_t depth() const { return backend_->depth(); }

 private:
  // A request on its way. Slots are reused; a slot's index is the id of its read in flight.
  struct Slot {
    ReadRequest request;
    uint32_t arrived = 0;     // bytes in place from the start of the destination
    uint32_t begin = 0;       // where in the destination the read in flight begins
    uint32_t interrupts = 0;  // in a row without new bytes
    uint32_t failures = 0;    // in a row without new bytes
  };

  void StartPending();
  void ReapResults(bool wait);
  void HandleResult(const BackendResult& result);
  void Retry(uint32_t index);
  void Finish(uint32_t index, Status status);
  void SetInFlight(size_t in_flight);

  std::unique_ptr<ReadBackend> backend_;
  const Clock& clock_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::deque<uint32_t> pending_;  // slots to start, in this order
  size_t active_ = 0;             // slots in use: pending or in flight
  size_t in_flight_ = 0;
  uint64_t busy_since_ = 0;
  std::vector<ReadCompletion> ready_;
  std::vector<BackendRead> start_batch_;
  std::vector<BackendResult> results_;
  ReadStats stats_;
};

}  // namespace slotstream::io
