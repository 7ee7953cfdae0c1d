#include "server/work_queue.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace slotstream::server {

WorkQueue::WorkQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkQueue::Run(std::function<void()> work, bool large) {
  {
    std::lock_guard lock(mutex_);
    pieces_.push_back({std::move(work), large});
  }
  wake_.notify_one();
}

std::deque<WorkQueue::Piece>::iterator WorkQueue::Next() {
  return std::ranges::find_if(pieces_,
                              [this](const Piece& piece) { return !piece.large || !large_runs_; });
}

void WorkQueue::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || Next() != pieces_.end(); });
    if (stop_) return;
    const auto next = Next();
    Piece piece = std::move(*next);
    pieces_.erase(next);
    if (piece.large) large_runs_ = true;
    lock.unlock();
    piece.work();
    piece.work = nullptr;
    // The C library keeps hundreds of megabytes otherwise.
    if (piece.large) malloc_trim(0);
    lock.lock();
    if (!piece.large) continue;
    large_runs_ = false;
    wake_.notify_one();
  }
}

}  // namespace slotstream::server
