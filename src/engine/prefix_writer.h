// Writes states to the prefix cache on disk, off the generating thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

#include "state/prefix_cache.h"
#include "state/prefix_store.h"

namespace slotstream::engine {

// When a state is written. An agent's turns follow each other within seconds, and each would write
// the fixed part of a state anew; so a state waits until its conversation rests, unless it holds
// much that the disk has not.
struct PrefixWriterPace {
  std::chrono::milliseconds delay{2000};  // after the last state of the same conversation
  std::chrono::milliseconds rest{30'000};
  uint64_t much = 512;  // tokens worth a state before the conversation rests
  uint64_t least = 64;  // tokens worth a state at all: about a second's reading
  // States; for another the longest waiting of a turn is given up, then that of a junction.
  size_t most_waiting = 8;
};

// Thread-safe. A conversation's newer state takes the place of one that waits.
class PrefixWriter {
 public:
  // `cache` counts what is being written; both must outlive it.
  PrefixWriter(state::PrefixStore& store, state::PrefixCache& cache, PrefixWriterPace pace);
  // Writes what waits, at most `most_waiting` states.
  ~PrefixWriter();

  void Schedule(uint64_t conversation, state::PrefixStore::Saving saving);
  // Gives up a state that waits: its memory is wanted.
  void Forget(const state::Sequence* state);
  // Returns when all that was scheduled before is written.
  void Flush();

  uint64_t given_up() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    uint64_t conversation = 0;
    state::PrefixStore::Saving saving;
    Clock::time_point since;
  };

  void Loop();
  // The next to write now, or the time to look again.
  std::list<Waiting>::iterator Due(Clock::time_point now, Clock::time_point& again);

  state::PrefixStore& store_;
  state::PrefixCache& cache_;
  const PrefixWriterPace pace_;
  mutable std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::list<Waiting> waiting_;  // the longest waiting first
  bool writing_ = false;
  bool stop_ = false;
  int flushing_ = 0;
  uint64_t given_up_ = 0;
  std::thread thread_;
};

}  // namespace slotstream::engine
