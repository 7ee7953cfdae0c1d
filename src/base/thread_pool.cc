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

// The parts of loop_: the number in the upper half, then the flag, then the workers inside.
constexpr uint32_t kNumberStep = 1u << 16;
constexpr uint32_t kOpen = 1u << 15;
constexpr uint32_t kInside = kOpen - 1;
// A worker that sleeps through all 65,536 numbers and finds its old one misses a loop, no more.
uint32_t NumberOf(uint32_t loop) { return loop / kNumberStep; }

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { WorkerLoop(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  loop_.fetch_add(kNumberStep, std::memory_order_release);
  loop_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(size_t count, Body body, const void* context) {
  body_ = body;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  const uint32_t number = NumberOf(loop_.load(std::memory_order_relaxed)) + 1;
  loop_.store(number * kNumberStep | kOpen, std::memory_order_release);
  loop_.notify_all();
  Drain(0);
  // Those inside must leave before the context goes out of scope; no more may enter.
  uint32_t loop = loop_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while ((loop & kInside) != 0) loop = AwaitChange(loop_, loop);
}

void ThreadPool::Drain(int worker) {
  for (size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    body_(context_, i, worker);
  }
}

// Whether the calling worker may take part in the loop that `seen` tells of.
bool ThreadPool::Enter(uint32_t seen) {
  while ((seen & kOpen) != 0) {
    if (loop_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadPool::Leave() {
  const uint32_t before = loop_.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kOpen) == 0 && (before & kInside) == 1) loop_.notify_all();
}

void ThreadPool::WorkerLoop(int worker) {
  uint32_t done = 0;  // the number of the last loop that this worker knows of
  for (uint32_t loop = 0;;) {
    loop = AwaitChange(loop_, loop);
    if (stop_.load(std::memory_order_acquire)) return;
    if (NumberOf(loop) == done) continue;  // others came and went
    if (Enter(loop)) {
      Drain(worker);
      Leave();
    }
    done = NumberOf(loop);
  }
}

}  // namespace slotstream
