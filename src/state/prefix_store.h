// States of conversations on disk, found by the longest stored prefix of a prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/config.h"
#include "io/backend.h"
#include "io/file_lock.h"
#include "state/arriving_state.h"
#include "state/prefix_file.h"
#include "state/prefix_tree.h"
#include "state/sequence.h"

namespace slotstream::state {

struct PrefixStoreOptions {
  std::string directory;
  uint64_t quota_bytes = 20'000'000'000;
  // Shorter ones are read again sooner than their state's fixed part is written.
  uint64_t min_tokens = 1024;
  int64_t max_age_seconds = 30 * 24 * 3600;   // since the last use; 0: no limit
  uint64_t least_free_bytes = 1'000'000'000;  // the volume keeps so much for others
  PrefixIdentity identity = {};
  // Seconds since 1970; may jump.
  std::function<int64_t()> now;
  // Makes the reads' backend; empty means threads. Tests put faults here.
  std::function<Result<std::unique_ptr<io::ReadBackend>>(size_t depth)> make_backend = {};
  const Clock* clock = &Clock::Steady();
};

struct PrefixStoreStats {
  uint64_t heads = 0;
  uint64_t bytes = 0;  // of all files of ours in the directory, other models' included
  uint64_t quota = 0;
  uint64_t hits = 0;
  uint64_t saved = 0;    // states
  uint64_t skipped = 0;  // states that were there, or nearly
  uint64_t bytes_written = 0;
  uint64_t last_save_bytes = 0;
  uint64_t bytes_read = 0;
  uint64_t restore_nanos = 0;         // of hits, from the start to the last byte
  uint64_t restore_waited_nanos = 0;  // of these, waited for by a pass; the rest was hidden
  uint64_t evicted = 0;
  uint64_t damaged = 0;     // files that were dropped for it
  std::string last_reason;  // of the last thing that did not go well; empty: none
};

// Thread-safe; one process at a time has a directory. No error of the disk ends a request: what
// could not be stored or read is told in the stats, and the caller goes on without it.
class PrefixStore {
 public:
  // Makes the directory if need be, locks it, and heals what a killed process left: temporary
  // files, damaged heads, rows that no head needs. Errors: kResourceLimit (another process has it),
  // kIo, kNotFound.
  static Result<std::unique_ptr<PrefixStore>> Open(PrefixStoreOptions options);

  struct Saving {
    std::vector<PrefixKey> keys;  // that the state has read
    std::shared_ptr<const Sequence> state;
    std::vector<ReplyNote> replies;
    uint32_t next_id = kNoId;  // see PrefixHead
    bool junction = false;
    uint64_t turn = 1;
    // Tokens less than this beyond a stored state are not worth a new one.
    uint64_t least_new = 0;
  };
  // Writes the rows that no stored prefix has, then a head; drops what it supersedes and what the
  // quota demands. False: skipped. Errors are in the stats too.
  Result<bool> Save(const Saving& saving);

  struct Found {
    size_t length = 0;
    uint64_t turn = 1;
    bool junction = false;
    std::vector<ReplyNote> replies;
  };
  // The longest stored state that leaves at least one key to read. Does not count as a use.
  std::optional<Found> Find(std::span<const PrefixKey> keys) const;
  // Starts to read it; `config` and the options' clock must outlive what is returned, but the
  // store need not. Errors: kNotFound (there is none), kResourceLimit, and whatever is wrong with
  // it, for which it is dropped.
  Result<std::unique_ptr<ArrivingState>> StartRestore(std::span<const PrefixKey> keys,
                                                      const checkpoint::ModelConfig& config,
                                                      bool keep);
  // What became of it goes into the stats; a state that proved damaged is dropped.
  void EndRestore(const ArrivingState& state);

  // Calls fn with the keys and replies of every head.
  void ForEachHead(const std::function<void(const PrefixHead&)>& fn) const;

  PrefixStoreStats stats() const;

 private:
  struct Head {
    PrefixHead about;
    std::string name;
    int64_t last_use = 0;
  };
  struct Segment {
    uint64_t bytes = 0;
    uint64_t heads = 0;
    std::vector<Piece> pieces = {};  // its table
  };
  struct Foreign {  // a file of another model or version
    std::string name;
    uint64_t bytes = 0;
    int64_t last_use = 0;
  };
  using Id = PrefixTree::Id;

  explicit PrefixStore(PrefixStoreOptions options) : options_(std::move(options)) {}
  std::string Path(const std::string& name) const { return options_.directory + "/" + name; }
  std::optional<Id> FindId(std::span<const PrefixKey> keys) const;
  void Heal();
  void TakeIn(const std::string& name, int64_t last_use);
  void Add(Head head);
  Status Drop(Id id);
  Status Remove(const std::string& name);
  void DropSuperseded(std::span<const PrefixKey> keys, uint64_t turn);
  void DropExpired();
  Status MakeRoom(uint64_t bytes, std::optional<Id> keep);
  std::optional<Id> Victim(std::optional<Id> keep) const;
  Status Write(const Saving& saving);
  Result<std::unique_ptr<ArrivingState>> Start(Head& head, const checkpoint::ModelConfig& config,
                                               bool keep);
  void GiveUp(Id id, const Error& error);
  void Note(const Error& error);

  const PrefixStoreOptions options_;
  std::unique_ptr<io::FileLock> lock_;
  std::mutex saving_;         // one save at a time
  mutable std::mutex mutex_;  // for all below; never held while large files are read or written
  PrefixTree tree_;
  std::map<Id, Head> heads_;
  std::map<std::string, Segment> segments_;  // by name
  std::vector<Foreign> foreign_;             // the longest unused first
  uint64_t bytes_ = 0;
  Id next_id_ = 1;
  PrefixStoreStats stats_;
};

}  // namespace slotstream::state
