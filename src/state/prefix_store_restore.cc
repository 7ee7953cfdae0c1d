// How a store finds a state and has it read.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

#include "io/file.h"
#include "state/prefix_directory.h"
#include "state/prefix_store.h"

namespace slotstream::state {

std::optional<PrefixStore::Id> PrefixStore::FindId(std::span<const PrefixKey> keys) const {
  const std::vector<Id> entries = tree_.Find(keys).entries;
  for (auto id = entries.rbegin(); id != entries.rend(); ++id) {
    if (tree_.Length(*id) < keys.size()) return *id;
  }
  return std::nullopt;
}

std::optional<PrefixStore::Found> PrefixStore::Find(std::span<const PrefixKey> keys) const {
  std::lock_guard lock(mutex_);
  const std::optional<Id> id = FindId(keys);
  if (!id) return std::nullopt;
  const PrefixHead& about = heads_.at(*id).about;
  return Found{about.keys.size(), about.turn, about.junction, about.replies};
}

Result<std::unique_ptr<ArrivingState>> PrefixStore::StartRestore(
    std::span<const PrefixKey> keys, const checkpoint::ModelConfig& config, bool keep) {
  std::lock_guard lock(mutex_);
  const std::optional<Id> id = FindId(keys);
  if (!id) return Fail(ErrorCode::kNotFound, "no stored state begins like this");
  auto started = Start(heads_.at(*id), config, keep);
  if (!started) GiveUp(*id, started.error());
  return started;
}

// Files once open stay readable when they are evicted meanwhile.
Result<std::unique_ptr<ArrivingState>> PrefixStore::Start(Head& head,
                                                          const checkpoint::ModelConfig& config,
                                                          bool keep) {
  head.last_use = options_.now();
  ArrivingState::Files files;
  SS_ASSIGN_OR_RETURN(files.head, io::File::Open(Path(head.name), false));
  for (const SegmentRef& ref : head.about.segments) {
    SS_ASSIGN_OR_RETURN(files.rows.emplace_back(),
                        io::File::Open(Path(ref.name + std::string(kRowsSuffix)), false));
    files.row_pieces.push_back(segments_[ref.name].pieces);
  }
  // What the next process orders by; no reason to fail.
  utimensat(AT_FDCWD, Path(head.name).c_str(), nullptr, 0);
  // Threads: these reads go through the page cache, whose copies several then make at once. 0.8
  // to 1.0 of the disk's rate on two cores of Zen 3, where io_uring came to 0.4 to 0.9.
  SS_ASSIGN_OR_RETURN(auto backend,
                      options_.make_backend
                          ? options_.make_backend(kPieceReads)
                          : io::MakeBackend(io::BackendKind::kThreads, kPieceReads, nullptr));
  return ArrivingState::Start(config, head.about, std::move(files), std::move(backend), keep,
                              *options_.clock);
}

void PrefixStore::EndRestore(const ArrivingState& state) {
  std::lock_guard lock(mutex_);
  if (state.complete()) {
    ++stats_.hits;
    stats_.bytes_read += state.bytes_read();
    stats_.restore_nanos += state.nanos();
    stats_.restore_waited_nanos += state.waited_nanos();
    return;
  }
  const std::optional<Error> failure = state.failure();
  if (!failure) return;
  // The same state, unless it was dropped meanwhile.
  for (const Id id : tree_.Find(state.keys()).entries) {
    if (tree_.Length(id) == state.length()) return GiveUp(id, *failure);
  }
  Note(*failure);
}

// A file that can't be read is no better than one that is damaged: the next request would begin in
// vain too. Which of a head's files it was may matter to others; they find out when they are read.
void PrefixStore::GiveUp(Id id, const Error& error) {
  Note(error);
  if (error.code == ErrorCode::kResourceLimit) return;  // there is nothing wrong with it
  ++stats_.damaged;
  if (Status dropped = Drop(id); !dropped) Note(dropped.error());
}

}  // namespace slotstream::state
