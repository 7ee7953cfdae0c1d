#include "base/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slotstream {
namespace {

// About 20 microseconds on a 3 GHz core: longer than the gap between two loops of one layer,
// short enough that an idle engine costs nothing.
constexpr int kSpins = 2000;

inline void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins, then sleeps, until `value` differs from `old`; returns the new value.
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    CpuRelax();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { WorkerLoop(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(size_t count, Body body, const void* context) {
  body_ = body;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  Drain(0);
  // Every worker must have left the loop before its context goes out of scope.
  for (uint32_t left = running_.load(std::memory_order_acquire); left != 0;) {
    left = AwaitChange(running_, left);
  }
}

void ThreadPool::Drain(int worker) {
  for (size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    body_(context_, i, worker);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  uint32_t seen = 0;
  for (;;) {
    seen = AwaitChange(generation_, seen);
    if (stop_.load(std::memory_order_acquire)) return;
    Drain(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace slotstream
