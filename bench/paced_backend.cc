#include "bench/paced_backend.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace slotstream::bench {
namespace {

void SleepUntil(uint64_t due) {
  const uint64_t now = Clock::Steady().NowNanos();
  if (due > now) std::this_thread::sleep_for(std::chrono::nanoseconds(due - now));
}

}  // namespace

Status PacedBackend::Start(std::span<const io::BackendRead> reads) {
  {
    std::lock_guard lock(mutex_);
    for (const io::BackendRead& read : reads) {
      busy_until_ = std::max(busy_until_, Clock::Steady().NowNanos()) +
                    static_cast<uint64_t>(1e9 * read.length / rate_);
      due_[read.id] = busy_until_;
    }
  }
  return inner_->Start(reads);
}

void PacedBackend::TakeLanded() {
  const size_t count = inner_->Reap(results_, false);
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < count; ++i) {
    const auto due = due_.extract(results_[i].id);
    landed_.push_back({results_[i], due.mapped()});
  }
  std::ranges::stable_sort(landed_, {}, &Landed::due);
}

size_t PacedBackend::Reap(std::span<io::BackendResult> out, bool wait) {
  for (;;) {
    TakeLanded();
    const uint64_t now = Clock::Steady().NowNanos();
    size_t count = 0;
    while (count < out.size() && !landed_.empty() && landed_.front().due <= now) {
      out[count++] = landed_.front().result;
      landed_.pop_front();
    }
    {
      std::lock_guard lock(mutex_);
      if (count > 0 || !wait || (landed_.empty() && due_.empty())) return count;
    }
    WaitReady();
  }
}

void PacedBackend::WaitReady() {
  if (landed_.empty()) inner_->WaitReady();
  TakeLanded();
  if (!landed_.empty()) SleepUntil(landed_.front().due);
}

Result<std::unique_ptr<io::ReadBackend>> MakePacedBackend(size_t depth, double gb_s) {
  SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(io::BackendKind::kAuto, depth, nullptr));
  if (gb_s <= 0) return backend;
  return std::make_unique<PacedBackend>(std::move(backend), gb_s * 1e9);
}

}  // namespace slotstream::bench
