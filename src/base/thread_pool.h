// Fork-join parallelism for kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace slotstream {

// A fixed set of threads that run one parallel loop at a time. The calling thread takes part, so a
// pool of 1 starts no thread. Between loops workers spin for a few microseconds, then sleep.
//
// A loop waits only for the workers that took part in it. One that the system keeps from running,
// because a neighbour has its core, is not missed: the others do its share.
//
// Which thread runs an index is not fixed; results must not depend on it (promise P1): each index
// owns its outputs.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(i) or fn(i, worker) for every i in [0, count), then returns; worker is in
  // [0, threads()) and tells concurrent calls apart, for scratch memory. fn must not throw and must
  // not call ParallelFor on the same pool. One caller at a time.
  template <typename Fn>
  void ParallelFor(size_t count, const Fn& fn) {
    auto body = [](const void* context, size_t i, int worker) {
      const Fn& call = *static_cast<const Fn*>(context);
      if constexpr (std::is_invocable_v<const Fn&, size_t, int>) {
        call(i, worker);
      } else {
        call(i);
      }
    };
    if (workers_.empty() || count <= 1) {
      for (size_t i = 0; i < count; ++i) body(&fn, i, 0);
      return;
    }
    Run(count, body, &fn);
  }

 private:
  using Body = void (*)(const void* context, size_t index, int worker);

  void Run(size_t count, Body body, const void* context);
  void WorkerLoop(int worker);
  void Drain(int worker);
  bool Enter(uint32_t seen);
  void Leave();

  // The current loop. Written while it is closed and nobody is in it.
  Body body_ = nullptr;
  const void* context_ = nullptr;
  size_t count_ = 0;
  alignas(64) std::atomic<size_t> next_{0};
  // The loop's number, whether workers may still enter it, and how many are in it.
  alignas(64) std::atomic<uint32_t> loop_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace slotstream
