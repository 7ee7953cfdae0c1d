// Who is next: exchanges wait in a fair queue and run on the engine, a few at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "server/exchange.h"
#include "server/fair_queue.h"

namespace slotstream::server {

// Thread-safe. Exchanges may be submitted before there is an engine.
class Scheduler {
 public:
  struct Limits {
    size_t waiting = 64;
    size_t running = 1;  // what the engine computes at once
    std::chrono::milliseconds keep_alive{10000};
    // From a request's acceptance to the first token of its reply, the wait for its turn included;
    // 0: as long as it takes. Half an hour reads 100 thousand tokens at 60 a second.
    std::chrono::milliseconds first_token{30 * 60 * 1000};
  };
  explicit Scheduler(Limits limits) : limits_(limits), queue_(limits.waiting) {}

  // `engine` must outlive all that runs; see Drain.
  void Start(engine::Engine& engine);
  // False if too many wait or the server is stopping.
  bool Submit(const std::shared_ptr<Exchange>& exchange);
  // Nobody waits for it any more.
  void Cancel(const std::shared_ptr<Exchange>& exchange);
  // Some times a second: keeps clients waiting, and ends what waited too long.
  void Tick();

  // Refuses what waits and what comes, gives what runs so long to end, then cancels it. Returns
  // when nothing runs.
  void Drain(std::chrono::milliseconds grace, const ApiError& error);

  bool stopping() const;
  size_t waiting() const;
  size_t running() const;

 private:
  void RunNext();
  void EndLate(const std::shared_ptr<Exchange>& exchange);
  void Ended(const std::shared_ptr<Exchange>& exchange);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  engine::Engine* engine_ = nullptr;
  FairQueue<std::shared_ptr<Exchange>> queue_;
  std::vector<std::shared_ptr<Exchange>> running_;
  bool stopping_ = false;
};

}  // namespace slotstream::server
