#include "io/read_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/system_error.h"

namespace slotstream::io {
namespace {

// Repeats after EIO or after a read that brought nothing, in a row. A transfer error (link,
// controller reset) goes away on the first or second; a bad sector does not, and the disk spends
// seconds on each attempt, so more would only hang the request.
constexpr uint32_t kMaxFailures = 3;

// Repeats after EINTR and its like, in a row. Each is chance and costs microseconds; a hundred
// without one byte are a fault and must not become an endless loop.
constexpr uint32_t kMaxInterrupts = 100;

std::string ReadAction(const ReadRequest& request) {
  return fmt::format("read {} bytes at offset {} of", request.required, request.offset);
}

Status Validate(const ReadRequest& request) {
  if (request.file == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("read at offset {} names no file", request.offset));
  }
  if (request.required > request.length) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot {} {}: only {} bytes are asked for", ReadAction(request),
                            request.file->path(), request.length));
  }
  // What no file can hold would be an invalid offset to the system instead of an early end.
  if (request.offset > static_cast<uint64_t>(INT64_MAX) - request.length) {
    return std::unexpected(request.file->Truncated(request.offset, request.required));
  }
  size_t alignment = request.file->alignment();
  if (request.offset % alignment != 0 || request.length % alignment != 0 ||
      reinterpret_cast<uintptr_t>(request.destination) % alignment != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot {} {}: offset, length {} and memory of a direct read must be "
                            "multiples of {}",
                            ReadAction(request), request.file->path(), request.length, alignment));
  }
  return {};
}

}  // namespace

ReadQueue::ReadQueue(std::unique_ptr<ReadBackend> backend, const Clock& clock)
    : backend_(std::move(backend)), clock_(clock), results_(backend_->depth()) {}

ReadQueue::~ReadQueue() { Drain(); }

void ReadQueue::Submit(std::span<const ReadRequest> requests) {
  for (const ReadRequest& request : requests) {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    uint32_t index = free_slots_.back();
    free_slots_.pop_back();
    slots_[index] = Slot{.request = request};
    ++active_;
    if (Status status = Validate(request); !status || request.length == 0) {
      Finish(index, std::move(status));
    } else {
      pending_.push_back(index);
    }
  }
  StartPending();
}

size_t ReadQueue::Wait(size_t min, std::vector<ReadCompletion>& out) {
  min = std::min(min, outstanding());
  ReapResults(false);
  if (ready_.size() < min) {
    uint64_t begin = clock_.NowNanos();
    while (ready_.size() < min) ReapResults(true);
    stats_.wait_nanos += clock_.NowNanos() - begin;
  }
  size_t count = ready_.size();
  std::move(ready_.begin(), ready_.end(), std::back_inserter(out));
  ready_.clear();
  return count;
}

void ReadQueue::Drain() {
  if (in_flight_ > 0) {
    uint64_t begin = clock_.NowNanos();
    while (in_flight_ > 0) SetInFlight(in_flight_ - backend_->Reap(results_, true));
    stats_.wait_nanos += clock_.NowNanos() - begin;
  }
  pending_.clear();
  slots_.clear();
  free_slots_.clear();
  ready_.clear();
  active_ = 0;
}

ReadStats ReadQueue::stats() const {
  ReadStats stats = stats_;
  if (in_flight_ > 0) stats.busy_nanos += clock_.NowNanos() - busy_since_;
  return stats;
}

void ReadQueue::StartPending() {
  while (!pending_.empty() && in_flight_ < backend_->depth()) {
    size_t count = std::min(pending_.size(), backend_->depth() - in_flight_);
    start_batch_.clear();
    for (size_t i = 0; i < count; ++i) {
      uint32_t index = pending_[i];
      Slot& slot = slots_[index];
      const ReadRequest& request = slot.request;
      // A direct read that ended inside a block is continued from that block's start.
      slot.begin = static_cast<uint32_t>(slot.arrived / request.file->alignment() *
                                         request.file->alignment());
      start_batch_.push_back({.id = index,
                              .file = request.file,
                              .offset = request.offset + slot.begin,
                              .destination = request.destination + slot.begin,
                              .length = request.length - slot.begin});
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(count));
    Status status = backend_->Start(start_batch_);
    if (status) {
      stats_.reads += count;
      SetInFlight(in_flight_ + count);
      continue;
    }
    for (const BackendRead& read : start_batch_) {
      uint32_t index = static_cast<uint32_t>(read.id);
      const ReadRequest& request = slots_[index].request;
      Finish(index,
             Fail(status.error().code, fmt::format("cannot {} {}: {}", ReadAction(request),
                                                   request.file->path(), status.error().message)));
    }
  }
}

void ReadQueue::ReapResults(bool wait) {
  if (in_flight_ == 0) return;
  size_t count = backend_->Reap(results_, wait);
  SetInFlight(in_flight_ - count);
  for (size_t i = 0; i < count; ++i) HandleResult(results_[i]);
  StartPending();
}

void ReadQueue::HandleResult(const BackendResult& result) {
  uint32_t index = static_cast<uint32_t>(result.id);
  Slot& slot = slots_[index];
  const ReadRequest& request = slot.request;
  if (result.result < 0) {
    int error_number = static_cast<int>(-result.result);
    // ECANCELED: io_uring gives up reads whose submitting thread ended.
    bool interrupted = error_number == EINTR || error_number == EAGAIN || error_number == ECANCELED;
    if (interrupted && slot.interrupts++ < kMaxInterrupts) return Retry(index);
    if (error_number == EIO && slot.failures++ < kMaxFailures) return Retry(index);
    return Finish(index, std::unexpected(
                             SystemError(error_number, ReadAction(request), request.file->path())));
  }
  uint32_t end = slot.begin + static_cast<uint32_t>(result.result);
  // A read that stops exactly where the last one did has found the end of the file, unless it is
  // a disk's whim; one that repeats part of a block and stops even earlier was cut by chance.
  if (end > slot.arrived) {
    slot.arrived = end;
    slot.interrupts = 0;
    slot.failures = 0;
  } else if (end == slot.arrived ? slot.failures++ >= kMaxFailures
                                 : slot.interrupts++ >= kMaxInterrupts) {
    return Finish(index,
                  std::unexpected(request.file->Truncated(request.offset, request.required)));
  }
  if (slot.arrived >= request.required) return Finish(index, {});
  Retry(index);
}

void ReadQueue::Retry(uint32_t index) {
  ++stats_.retries;
  // Ahead of what waits: the request is older.
  pending_.push_front(index);
}

void ReadQueue::Finish(uint32_t index, Status status) {
  const ReadRequest& request = slots_[index].request;
  if (status) {
    stats_.bytes += request.required;
  } else {
    ++stats_.errors;
  }
  ready_.push_back({request.tag, std::move(status)});
  free_slots_.push_back(index);
  --active_;
}

// Keeps the time with reads in flight.
void ReadQueue::SetInFlight(size_t in_flight) {
  if (in_flight_ == 0 && in_flight > 0) busy_since_ = clock_.NowNanos();
  if (in_flight_ > 0 && in_flight == 0) stats_.busy_nanos += clock_.NowNanos() - busy_since_;
  in_flight_ = in_flight;
}

}  // namespace slotstream::io
