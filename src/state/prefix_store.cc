#include "state/prefix_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "state/prefix_directory.h"
#include "state/prefix_policy.h"

namespace slotstream::state {
namespace {

namespace fs = std::filesystem;

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
