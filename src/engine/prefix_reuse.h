// How requests use the prefix cache: what they begin with, where they leave states, what becomes of
// their replies.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "engine/loaded_model.h"
#include "engine/prefix_writer.h"
#include "engine/reply_memory.h"
#include "engine/request.h"
#include "state/arriving_state.h"
#include "state/prefix_cache.h"
#include "state/sequence.h"

namespace slotstream::engine {

// Of the memory that a plan gives to the prefix cache, what each part may have.
struct PrefixShares {
  uint64_t states = 0;   // 0: too little for any
  uint64_t replies = 0;  // ids of replies
  size_t snapshots = 0;  // states of one prompt on their way into the cache
};
PrefixShares SharePrefixMemory(uint64_t bytes, const checkpoint::ModelConfig& config);

inline std::vector<state::PrefixKey> KeysOf(std::span<const uint32_t> ids) {
  return {ids.begin(), ids.end()};
}

// The part of the cache that outlives the process.
struct PrefixDiskOptions {
  std::string directory;  // empty: none
  uint64_t quota_bytes = 20'000'000'000;
  uint64_t min_tokens = 1024;
  int64_t max_age_seconds = 30 * 24 * 3600;
  PrefixWriterPace pace;
  // See state::PrefixStoreOptions.
  std::function<Result<std::unique_ptr<io::ReadBackend>>(size_t depth)> make_backend = {};
};

// Thread-safe but for its uses, of which each belongs to one thread.
class PrefixReuse {
 public:
  // With the memory that the model's plan gives. A directory that can't be used is no error: the
  // cache goes on without, and disk_problem() says why.
  PrefixReuse(LoadedModel& loaded, const PrefixDiskOptions& disk);
  // Writes what waits to be written.
  ~PrefixReuse();

  // One request's.
  class Use {
   public:
    // Fresh, or with the beginning of the prompt in it, but for layers that arrive.
    state::Sequence sequence;
    // Where these come from; null: they are there.
    state::ArrivingState* arriving() { return arriving_.get(); }
    // Where states are wanted; for generate::Generation.
    std::vector<size_t> places;
    // How the beginning was found, for logs.
    std::string note;

   private:
    friend class PrefixReuse;
    explicit Use(const checkpoint::ModelConfig& config)
        : sequence(state::Sequence::WithoutLayers(config)) {}
    state::PrefixCache::Hit hit;  // without the state
    std::vector<size_t> shared_ends, turn_ends;
    std::vector<state::PrefixKey> keys;
    std::vector<size_t> junctions;
    std::vector<state::ReplyNote> replies;
    state::PrefixTurn turn;
    bool keep_off_disk = false;
    // Of a state that arrives.
    state::PrefixTurn stored_turn;
    bool stored_junction = false;
    std::optional<state::PrefixCache::Claim> room;  // where it will be kept
    bool no_disk = false;
    std::string failures;  // for `note`
    std::unique_ptr<state::ArrivingState> arriving_;
  };
  // Reads of a state on disk begin here; the first pass goes on while it arrives.
  Use Begin(std::span<const uint32_t> prompt, const PromptNotes& notes, const Request& request);
  // Takes note of a state that has arrived, if one has; between passes.
  void Settle(Use& use);
  // True if a pass failed because the state that it went on from did not arrive: `use` is then
  // another beginning of the same prompt, from which to try again.
  bool FallBack(Use& use);
  // Stores a state that has read the beginning of the use's prompt.
  void Keep(const Use& use, state::Snapshot state);
  // The request succeeded: use.sequence has read the prompt and all of `output` but the last.
  // `reply` is what a client can send back, of the prompt's last `reply_ids` and the output without
  // its stop token.
  struct Ended {
    std::span<const uint32_t> prompt;
    std::span<const uint32_t> output;
    size_t reply_ids = 0;
    bool stop_token = false;  // the last of output
    const text::ChatMessage* reply = nullptr;
    const text::OrderedJson* tools = nullptr;
  };
  void End(Use use, const Ended& ended);

  // Tokens that Begin would find, if nothing happens before.
  size_t Peek(std::span<const uint32_t> prompt) const;

  // False while there is too little memory for a state.
  bool enabled() const { return shares().states > 0; }
  ReplyMemory* replies() { return enabled() ? &replies_ : nullptr; }
  state::PrefixCacheStats stats() const { return cache_.stats(); }
  // Nothing where there is no disk.
  std::optional<state::PrefixStoreStats> disk_stats() const;
  const std::string& disk_problem() const { return disk_problem_; }
  // Returns when what was kept so far is on disk.
  void FlushDisk();
  // Bytes of everything, at first those of the plan; see PrefixCache::SetBudget. What is freed goes
  // back to the system.
  uint64_t budget() const { return budget_; }
  // The part of it that is taken.
  uint64_t held() const;
  void SetBudget(uint64_t bytes);

 private:
  PrefixShares shares() const { return SharePrefixMemory(budget_, config_); }
  void OpenDisk(const PrefixDiskOptions& disk);
  // What the prompt is gone on from: the state in memory (may be null) or one on disk.
  void Choose(Use& use, state::Snapshot in_memory);
  bool WorthRestoring(const Use& use, size_t in_memory) const;
  // Starts to read the longest state that can be read and is worth more than `in_memory` tokens.
  void Restore(Use& use, size_t in_memory);
  void NoteFailure(Use& use, const Error& error);
  void Remember(const PromptHash& before, const state::ReplyNote& note,
                std::span<const uint32_t> ids);
  void SaveLater(uint64_t conversation, const Use& use, state::PrefixStore::Saving saving);

  LoadedModel& loaded_;
  const checkpoint::ModelConfig& config_;
  std::atomic<uint64_t> budget_;
  const std::optional<uint32_t> turn_end_;  // the id that ends a turn of the chat template
  state::PrefixCache cache_;
  ReplyMemory replies_;
  std::unique_ptr<state::PrefixStore> store_;
  std::unique_ptr<PrefixWriter> writer_;  // before the store
  std::string disk_problem_;
};

}  // namespace slotstream::engine
