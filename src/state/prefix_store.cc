#include "state/prefix_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "io/atomic_file.h"
#include "io/file.h"
#include "io/free_space.h"
#include "state/prefix_directory.h"
#include "state/prefix_policy.h"

namespace slotstream::state {
namespace {

namespace fs = std::filesystem;

// A head with more is written with one segment of all rows, so that a restore stays a few long
// reads.
constexpr size_t kMostSegments = 64;

}  // namespace

void PrefixStore::Add(Head head) {
  for (const SegmentRef& segment : head.about.segments) ++segments_[segment.name].heads;
  const Id id = next_id_++;
  if (const std::optional<Id> old = tree_.Insert(head.about.keys, id)) {
    // Of one name, and so of the same file.
    for (const SegmentRef& segment : heads_.at(*old).about.segments) {
      --segments_[segment.name].heads;
    }
    heads_.erase(*old);
  }
  heads_.emplace(id, std::move(head));
}

Status PrefixStore::Remove(const std::string& name) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(Path(name), error);
  SS_RETURN_IF_ERROR(RemoveFile(Path(name)));
  // Someone else may have changed its size.
  if (!error) bytes_ -= std::min(bytes_, bytes);
  return {};
}

Status PrefixStore::Drop(Id id) {
  const auto found = heads_.find(id);
  const Head head = std::move(found->second);
  heads_.erase(found);
  tree_.Erase(id);
  SS_RETURN_IF_ERROR(Remove(head.name));
  for (const SegmentRef& ref : head.about.segments) {
    const auto segment = segments_.find(ref.name);
    if (segment == segments_.end() || --segment->second.heads > 0) continue;
    segments_.erase(segment);
    SS_RETURN_IF_ERROR(Remove(ref.name + std::string(kRowsSuffix)));
  }
  return {};
}

void PrefixStore::DropExpired() {
  if (options_.max_age_seconds == 0) return;
  const int64_t oldest = options_.now() - options_.max_age_seconds;
  std::vector<Id> expired;
  for (const auto& [id, head] : heads_) {
    if (head.last_use < oldest) expired.push_back(id);
  }
  for (const Id id : expired) {
    ++stats_.evicted;
    if (Status dropped = Drop(id); !dropped) Note(dropped.error());
  }
}

// A conversation keeps its last two states, the older one for an edit of the last turn.
void PrefixStore::DropSuperseded(std::span<const PrefixKey> keys, uint64_t turn) {
  bool kept = false;
  const std::vector<Id> entries = tree_.Find(keys).entries;
  for (auto id = entries.rbegin(); id != entries.rend(); ++id) {
    const Head& head = heads_.at(*id);
    if (head.about.junction || head.about.keys.size() == keys.size()) continue;
    if (head.about.turn <= turn && std::exchange(kept, true)) {
      if (Status dropped = Drop(*id); !dropped) Note(dropped.error());
    }
  }
}

std::optional<PrefixStore::Id> PrefixStore::Victim(std::optional<Id> keep) const {
  std::optional<Id> victim;
  std::tuple<EntryClass, int64_t, std::string> lowest;
  for (const auto& [id, head] : heads_) {
    if (id == keep) continue;
    EntryHistory history{.length = head.about.keys.size(),
                         .turns = head.about.turn,
                         .conversations = head.about.junction ? 2u : 1u};
    tree_.ForEachBelow(id, [&](Id below) {
      history.turns_below = std::max(history.turns_below, heads_.at(below).about.turn);
    });
    const std::tuple order(ClassOf(history), head.last_use, head.name);
    if (victim && order >= lowest) continue;
    victim = id;
    lowest = order;
  }
  return victim;
}

// Other models' files go first, then heads by class and age.
Status PrefixStore::MakeRoom(uint64_t bytes, std::optional<Id> keep) {
  const auto too_much = [&] {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("{} bytes do not fit into the quota of {} of {}", bytes,
                            options_.quota_bytes, options_.directory));
  };
  if (bytes > options_.quota_bytes) return too_much();
  while (bytes_ + bytes > options_.quota_bytes) {
    if (!foreign_.empty()) {
      const std::string name = foreign_.front().name;
      foreign_.erase(foreign_.begin());
      SS_RETURN_IF_ERROR(Remove(name));
    } else if (const std::optional<Id> victim = Victim(keep)) {
      SS_RETURN_IF_ERROR(Drop(*victim));
    } else {
      return too_much();
    }
    ++stats_.evicted;
  }
  return {};
}

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

Status PrefixStore::Load(std::span<const PrefixKey> keys, ThreadPool& threads, Sequence& sequence) {
  // Open files stay readable when they are evicted meanwhile.
  std::vector<std::unique_ptr<io::File>> files;
  PrefixHead about;
  Id id = 0;
  const auto open = [&]() -> Status {
    std::lock_guard lock(mutex_);
    const std::optional<Id> found = FindId(keys);
    if (!found) return Fail(ErrorCode::kNotFound, "no stored state begins like this");
    id = *found;
    Head& head = heads_.at(id);
    about = head.about;
    head.last_use = options_.now();
    SS_ASSIGN_OR_RETURN(files.emplace_back(), io::File::Open(Path(head.name), false));
    for (const SegmentRef& segment : about.segments) {
      SS_ASSIGN_OR_RETURN(files.emplace_back(),
                          io::File::Open(Path(segment.name + std::string(kRowsSuffix)), false));
    }
    // What the next process orders by; no reason to fail.
    utimensat(AT_FDCWD, Path(head.name).c_str(), nullptr, 0);
    return {};
  };
  Status status = open();
  if (status) {
    std::vector<const io::File*> segments;
    for (size_t i = 1; i < files.size(); ++i) segments.push_back(files[i].get());
    status = ReadState(about, *files[0], segments, threads, sequence);
  }
  std::lock_guard lock(mutex_);
  if (status) {
    ++stats_.hits;
    for (const auto& file : files) stats_.bytes_read += file->size();
    return {};
  }
  Note(status.error());
  // Which of its files is damaged may matter to others; they find out when they are read.
  const ErrorCode code = status.error().code;
  const bool bad = code != ErrorCode::kIo && code != ErrorCode::kResourceLimit;
  if (bad && heads_.contains(id)) {
    ++stats_.damaged;
    if (Status dropped = Drop(id); !dropped) Note(dropped.error());
  }
  return status;
}

Result<bool> PrefixStore::Save(const Saving& saving) {
  if (saving.keys.size() < options_.min_tokens) return false;
  std::lock_guard one_at_a_time(saving_);
  {
    std::lock_guard lock(mutex_);
    const std::vector<Id> entries = tree_.Find(saving.keys).entries;
    if (!entries.empty()) {
      const size_t length = tree_.Length(entries.back());
      // A beginning that conversations share is worth its own state however near another is.
      const bool near = length + saving.least_new > saving.keys.size() && !saving.junction;
      if (near || length == saving.keys.size()) {
        ++stats_.skipped;
        return false;
      }
    }
  }
  if (Status written = Write(saving); !written) {
    std::lock_guard lock(mutex_);
    Note(written.error());
    return std::unexpected(std::move(written).error());
  }
  return true;
}

Status PrefixStore::Write(const Saving& saving) {
  PrefixHead about{.keys = saving.keys,
                   .segments = {},
                   .replies = saving.replies,
                   .next_id = saving.next_id,
                   .junction = saving.junction,
                   .turn = saving.turn,
                   .file_bytes = 0};
  const Sequence& state = *saving.state;
  uint64_t begin = 0, head_bytes = 0, rows_bytes = 0;
  bool have_rows = false;
  SS_ASSIGN_OR_RETURN(const std::string name,
                      PrefixFileName(options_.identity, "head", saving.keys, 0));
  {
    std::lock_guard lock(mutex_);
    DropExpired();
    const std::vector<Id> entries = tree_.Find(saving.keys).entries;
    std::optional<Id> base;
    if (!entries.empty() && heads_.at(entries.back()).about.segments.size() < kMostSegments) {
      base = entries.back();
      about.segments = heads_.at(*base).about.segments;
      begin = tree_.Length(*base);
    }
    SS_ASSIGN_OR_RETURN(std::string rows,
                        PrefixFileName(options_.identity, "rows", saving.keys, begin));
    about.segments.push_back({rows, begin, saving.keys.size()});
    head_bytes = HeadBytes(state, about);
    rows_bytes = SegmentBytes(state, begin, saving.keys.size());
    SS_RETURN_IF_ERROR(MakeRoom(head_bytes + rows_bytes, base));
    // A longer state may still need the rows of one that was dropped.
    have_rows = segments_.contains(rows);
    if (have_rows) rows_bytes = 0;
  }
  const uint64_t needed = head_bytes + rows_bytes;
  SS_ASSIGN_OR_RETURN(const uint64_t free, io::FreeBytes(options_.directory));
  if (free < needed + options_.least_free_bytes) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("{} has {} bytes left; a state of {} would leave less than {}",
                            options_.directory, free, needed, options_.least_free_bytes));
  }
  const std::string segment = about.segments.back().name + std::string(kRowsSuffix);
  const std::string head = name + std::string(kHeadSuffix);
  const auto publish = [&](const std::string& file, Status written) -> Status {
    const std::string part = Path(file + std::string(kPartSuffix));
    if (written) written = io::PublishFile(part, Path(file));
    if (!written) unlink(part.c_str());
    return written;
  };
  if (!have_rows) {
    SS_RETURN_IF_ERROR(
        publish(segment, WriteSegment(Path(segment + std::string(kPartSuffix)), options_.identity,
                                      state, begin, saving.keys.size())));
  }
  if (Status written = publish(
          head, WriteHead(Path(head + std::string(kPartSuffix)), options_.identity, about, state));
      !written) {
    if (!have_rows) unlink(Path(segment).c_str());
    return written;
  }
  std::lock_guard lock(mutex_);
  if (!have_rows) segments_[about.segments.back().name].bytes = rows_bytes;
  about.file_bytes = head_bytes;
  bytes_ += needed;
  ++stats_.saved;
  stats_.bytes_written += needed;
  stats_.last_save_bytes = needed;
  Add({std::move(about), head, options_.now()});
  DropSuperseded(saving.keys, saving.turn);
  return {};
}

void PrefixStore::Note(const Error& error) { stats_.last_reason = error.message; }

void PrefixStore::ForEachHead(const std::function<void(const PrefixHead&)>& fn) const {
  std::lock_guard lock(mutex_);
  for (const auto& [id, head] : heads_) fn(head.about);
}

PrefixStoreStats PrefixStore::stats() const {
  std::lock_guard lock(mutex_);
  PrefixStoreStats stats = stats_;
  stats.heads = heads_.size();
  stats.bytes = bytes_;
  stats.quota = options_.quota_bytes;
  return stats;
}

}  // namespace slotstream::state
