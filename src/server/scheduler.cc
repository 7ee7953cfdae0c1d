#include "server/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace slotstream::server {

void Scheduler::Start(engine::Engine& engine) {
  {
    std::lock_guard lock(mutex_);
    engine_ = &engine;
  }
  RunNext();
}

bool Scheduler::Submit(const std::shared_ptr<Exchange>& exchange) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !queue_.Push(exchange->key(), exchange)) return false;
    exchange->Begin();  // before another thread may take it from the queue
  }
  RunNext();
  return true;
}

void Scheduler::RunNext() {
  for (;;) {
    std::shared_ptr<Exchange> next;
    engine::Engine* engine = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (engine_ == nullptr || running_.size() >= limits_.running) return;
      std::optional<std::shared_ptr<Exchange>> waiting = queue_.Pop();
      if (!waiting) return;
      next = std::move(*waiting);
      running_.push_back(next);
      engine = engine_;
    }
    next->Run(*engine, [this, next] { Ended(next); });
  }
}

void Scheduler::Ended(const std::shared_ptr<Exchange>& exchange) {
  {
    std::lock_guard lock(mutex_);
    std::erase(running_, exchange);
  }
  RunNext();
  ended_.notify_all();
}

void Scheduler::Cancel(const std::shared_ptr<Exchange>& exchange) {
  {
    std::lock_guard lock(mutex_);
    queue_.Remove(exchange);
  }
  exchange->Cancel();
}

void Scheduler::Tick() {
  std::vector<std::shared_ptr<Exchange>> all;
  {
    std::lock_guard lock(mutex_);
    all = running_;
    queue_.ForEach([&all](const std::shared_ptr<Exchange>& waiting) { all.push_back(waiting); });
  }
  const auto now = Exchange::Clock::now();
  for (const auto& exchange : all) {
    if (limits_.first_token.count() > 0 && exchange->Late(now, limits_.first_token)) {
      EndLate(exchange);
    } else {
      exchange->KeepAlive(now, limits_.keep_alive);
    }
  }
}

void Scheduler::EndLate(const std::shared_ptr<Exchange>& exchange) {
  {
    std::lock_guard lock(mutex_);
    queue_.Remove(exchange);
  }
  exchange->Fail({.kind = ApiError::Kind::kTimeout,
                  .message = fmt::format("no token came within {} seconds, the time that "
                                         "--first-token-seconds allows",
                                         limits_.first_token.count() / 1000.0)});
}

bool Scheduler::stopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void Scheduler::Drain(std::chrono::milliseconds grace, const ApiError& error) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  std::vector<std::shared_ptr<Exchange>> waiting;
  while (auto next = queue_.Pop()) waiting.push_back(std::move(*next));
  lock.unlock();
  for (const auto& exchange : waiting) exchange->Fail(error);
  lock.lock();
  ended_.wait_for(lock, grace, [this] { return running_.empty(); });
  const auto running = running_;
  lock.unlock();
  for (const auto& exchange : running) exchange->Fail(error);
  lock.lock();
  ended_.wait(lock, [this] { return running_.empty(); });
}

size_t Scheduler::waiting() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

size_t Scheduler::running() const {
  std::lock_guard lock(mutex_);
  return running_.size();
}

}  // namespace slotstream::server
