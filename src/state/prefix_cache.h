// States of conversations in memory, found by the longest stored prefix of a prompt.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "state/prefix_policy.h"
#include "state/prefix_tree.h"
#include "state/sequence.h"

namespace slotstream::state {

using Snapshot = std::shared_ptr<const Sequence>;

// What a client says of a request; hints, none of which changes a bit.
struct PrefixHints {
  std::string session;  // requests of one session keep each other's states from growing old
  bool side = false;    // a sub-agent's
};

// A request's place in its conversation: made by Find, given to Insert.
struct PrefixTurn {
  uint64_t conversation = 0;
  uint64_t turn = 1;
  uint64_t request = 0;
  PrefixHints hints;
};

struct PrefixCacheStats {
  uint64_t requests = 0;
  uint64_t hits = 0;           // requests that found anything
  uint64_t tokens_asked = 0;   // of all prompts
  uint64_t tokens_known = 0;   // of them, shared with anything stored, but for a prompt's last
  uint64_t tokens_served = 0;  // of them, found
  uint64_t stored = 0;         // states taken in
  uint64_t refused = 0;        // states larger than the whole budget
  std::array<uint64_t, kEntryClasses> evicted = {};
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t budget = 0;
};

// Thread-safe.
class PrefixCache {
 public:
  // `budget` bytes hold everything: rows that several states share once, and the keys.
  explicit PrefixCache(uint64_t budget);

  struct Hit {
    Snapshot state;     // null where nothing is stored
    size_t length = 0;  // tokens that it has read
    size_t common = 0;  // tokens that the prompt shares with anything stored
    PrefixTurn turn;
  };
  // The longest stored state that leaves at least one key to read. Counts as a use.
  Hit Find(std::span<const PrefixKey> keys, const PrefixHints& hints);
  // It alone, without counting.
  Snapshot Peek(std::span<const PrefixKey> keys) const;
  // For a longer state that came from elsewhere: counts its `length` as known and served, in place
  // of what Find counted when it returned `hit`.
  void CountServed(const Hit& hit, size_t length);

  enum class Place {
    kTurn,      // in a conversation
    kJunction,  // where other conversations are expected, or were seen, to go their own way
  };
  // Stores the state that has read `keys`, and evicts what the budget demands. A state of the same
  // keys is replaced.
  void Insert(std::span<const PrefixKey> keys, Snapshot state, const PrefixTurn& turn, Place place);

  // Memory that is counted as the cache's while the object lives. The cache must outlive it.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept;
    ~Claim() { Drop(); }

   private:
    friend class PrefixCache;
    void Drop() noexcept;

    PrefixCache* cache_ = nullptr;
    uint64_t bytes_ = 0;  // of a state to come
    Snapshot state_;      // or one that is there
  };
  // Makes room for a state that will be inserted; nothing if it is larger than the budget.
  std::optional<Claim> Reserve(uint64_t bytes);
  // Of a state that somebody needs whether the cache has it or not: what only it holds stays
  // counted when it is evicted.
  Claim Hold(Snapshot state);

  // Evicts down to `budget` and keeps to it from now on; what is evicted is free at once unless a
  // request still reads it.
  void SetBudget(uint64_t budget);
  // Told of every state that is evicted, under the cache's lock.
  void OnEvict(std::function<void(const Sequence*)> told);

  PrefixCacheStats stats() const;
  // Keys of all entries, by length and then key by key; for tests.
  std::vector<std::vector<PrefixKey>> Entries() const;

 private:
  struct Entry {
    Snapshot state;
    Place place = Place::kTurn;
    PrefixTurn turn;
    uint64_t conversations = 1;
    uint64_t last_use = 0;
    double credit = 0;
  };
  struct Rows {
    uint64_t states = 0;
    uint64_t bytes = 0;
  };

  uint64_t Bytes() const { return state_bytes_ + reserved_bytes_ + tree_.bytes(); }
  // Each counts a state for one more or one less of its holders: entries and claims.
  void Count(const Sequence& state);
  void Discount(const Sequence& state);
  EntryWorth WorthOf(PrefixTree::Id id, const Entry& entry) const;
  // Held states last: they free nothing, but must not stay for long.
  void EvictDownTo(uint64_t budget);
  void Forget(PrefixTree::Id id);

  mutable std::mutex mutex_;  // for all below
  uint64_t budget_;
  PrefixTree tree_;
  std::map<PrefixTree::Id, Entry> entries_;
  std::unordered_map<const Sequence*, uint64_t> holders_;
  std::unordered_map<const void*, Rows> rows_;  // by block
  uint64_t state_bytes_ = 0;
  uint64_t reserved_bytes_ = 0;
  uint64_t next_id_ = 1;
  uint64_t next_conversation_ = 1;
  uint64_t request_ = 0;
  double credit_ = 0;  // the last victim's value
  std::function<void(const Sequence*)> on_evict_;
  PrefixCacheStats stats_;
};

}  // namespace slotstream::state
