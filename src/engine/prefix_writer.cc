#include "engine/prefix_writer.h"

#include <algorithm>
#include <utility>

namespace slotstream::engine {

PrefixWriter::PrefixWriter(state::PrefixStore& store, state::PrefixCache& cache,
                           PrefixWriterPace pace)
    : store_(store), cache_(cache), pace_(pace), thread_([this] { Loop(); }) {}

PrefixWriter::~PrefixWriter() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PrefixWriter::Schedule(uint64_t conversation, state::PrefixStore::Saving saving) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const Waiting& other) {
      return other.conversation == conversation && other.saving.junction == saving.junction;
    });
    if (waiting_.size() >= pace_.most_waiting) {
      // The longest waiting; what other conversations begin with only if nothing else waits.
      const auto turn = std::ranges::find_if(
          waiting_, [](const Waiting& other) { return !other.saving.junction; });
      waiting_.erase(turn != waiting_.end() ? turn : waiting_.begin());
      ++given_up_;
    }
    waiting_.push_back({conversation, std::move(saving), Clock::now()});
  }
  changed_.notify_all();
}

void PrefixWriter::Forget(const state::Sequence* state) {
  std::lock_guard lock(mutex_);
  given_up_ += std::erase_if(
      waiting_, [state](const Waiting& waiting) { return waiting.saving.state.get() == state; });
}

void PrefixWriter::Flush() {
  std::unique_lock lock(mutex_);
  ++flushing_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return waiting_.empty() && !writing_; });
  --flushing_;
}

std::list<PrefixWriter::Waiting>::iterator PrefixWriter::Due(Clock::time_point now,
                                                             Clock::time_point& again) {
  for (auto waiting = waiting_.begin(); waiting != waiting_.end(); ++waiting) {
    if (stop_ || flushing_ > 0) return waiting;
    const auto found = store_.Find(waiting->saving.keys);
    const size_t known = found ? found->length : 0;
    const bool much = waiting->saving.keys.size() >= known + pace_.much;
    const Clock::time_point due = waiting->since + (much ? pace_.delay : pace_.rest);
    if (due <= now) return waiting;
    again = std::min(again, due);
  }
  return waiting_.end();
}

void PrefixWriter::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Clock::time_point now = Clock::now();
    Clock::time_point again = now + pace_.rest;
    const auto due = Due(now, again);
    if (due == waiting_.end()) {
      if (stop_) return;
      changed_.wait_until(lock, again);
      continue;
    }
    state::PrefixStore::Saving saving = std::move(due->saving);
    waiting_.erase(due);
    saving.least_new = pace_.least;
    writing_ = true;
    lock.unlock();
    {
      // It can't be given up any more, only evicted.
      const state::PrefixCache::Claim counted = cache_.Hold(saving.state);
      // What went wrong is in the store's statistics.
      (void)store_.Save(saving);
      saving = {};
    }
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

uint64_t PrefixWriter::given_up() const {
  std::lock_guard lock(mutex_);
  return given_up_;
}

}  // namespace slotstream::engine
