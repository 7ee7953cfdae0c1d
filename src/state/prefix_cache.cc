#include "state/prefix_cache.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace slotstream::state {
namespace {

// Of a state, what no other shares.
uint64_t OwnBytes(const Sequence& state) {
  uint64_t bytes = state.bytes();
  state.ForEachRows([&bytes](const RowBlocks& rows) { bytes -= rows.bytes(); });
  return bytes;
}

template <typename Fn>
void ForEachBlock(const Sequence& state, const Fn& fn) {
  state.ForEachRows([&fn](const RowBlocks& rows) {
    for (size_t i = 0; i < rows.blocks(); ++i) fn(rows.block(i), rows.block_bytes());
  });
}

}  // namespace

PrefixCache::PrefixCache(uint64_t budget) : budget_(budget) {}

PrefixCache::Hit PrefixCache::Find(std::span<const PrefixKey> keys, const PrefixHints& hints) {
  std::lock_guard lock(mutex_);
  ++request_;
  ++stats_.requests;
  stats_.tokens_asked += keys.size();
  Hit hit;
  hit.turn = {.conversation = 0, .turn = 1, .request = request_, .hints = hints};
  PrefixTree::Match match = tree_.Find(keys);
  hit.common = match.common;
  if (!keys.empty()) stats_.tokens_known += std::min(match.common, keys.size() - 1);
  while (!match.entries.empty() && tree_.Length(match.entries.back()) >= keys.size()) {
    match.entries.pop_back();
  }
  if (!match.entries.empty()) {
    Entry& entry = entries_.at(match.entries.back());
    hit.state = entry.state;
    hit.length = tree_.Length(match.entries.back());
    if (entry.place == Place::kJunction) {
      ++entry.conversations;
    } else {
      hit.turn.conversation = entry.turn.conversation;
      // The same prompt once more is the same turn.
      hit.turn.turn = entry.turn.turn + (hit.length + 1 < keys.size() ? 1 : 0);
    }
    ++stats_.hits;
    stats_.tokens_served += hit.length;
  }
  if (hit.turn.conversation == 0) hit.turn.conversation = next_conversation_++;
  // All that lies on the way is of use to this conversation, not only the longest.
  for (const PrefixTree::Id id : match.entries) {
    entries_.at(id).last_use = request_;
    entries_.at(id).credit = credit_;
  }
  if (!hints.session.empty()) {
    for (auto& [id, entry] : entries_) {
      if (entry.turn.hints.session == hints.session) entry.last_use = request_;
    }
  }
  return hit;
}

Snapshot PrefixCache::Peek(std::span<const PrefixKey> keys) const {
  std::lock_guard lock(mutex_);
  for (const PrefixTree::Match match = tree_.Find(keys);
       const PrefixTree::Id id : std::views::reverse(match.entries)) {
    if (tree_.Length(id) < keys.size()) return entries_.at(id).state;
  }
  return nullptr;
}

void PrefixCache::CountServed(const Hit& hit, size_t length) {
  std::lock_guard lock(mutex_);
  if (hit.length == 0) ++stats_.hits;
  stats_.tokens_served += length - hit.length;
  stats_.tokens_known += length - std::min(length, hit.common);
}

void PrefixCache::Insert(std::span<const PrefixKey> keys, Snapshot state, const PrefixTurn& turn,
                         Place place) {
  if (keys.empty()) return;
  std::lock_guard lock(mutex_);
  if (state->bytes() + keys.size() * sizeof(PrefixKey) > budget_) {
    ++stats_.refused;
    return;
  }
  Count(*state);
  Entry entry{.state = std::move(state),
              .place = place,
              .turn = turn,
              .last_use = turn.request,
              .credit = credit_};
  const PrefixTree::Id id = next_id_++;
  if (const std::optional<PrefixTree::Id> old = tree_.Insert(keys, id)) {
    const auto found = entries_.find(*old);
    entry.conversations = found->second.conversations;
    if (found->second.place == Place::kJunction) entry.place = Place::kJunction;
    Discount(*found->second.state);
    if (on_evict_) on_evict_(found->second.state.get());
    entries_.erase(found);
  }
  entries_.emplace(id, std::move(entry));
  ++stats_.stored;
  EvictDownTo(budget_);
}

std::optional<PrefixCache::Claim> PrefixCache::Reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > budget_) return std::nullopt;
  Claim claim;
  claim.cache_ = this;
  claim.bytes_ = bytes;
  reserved_bytes_ += bytes;
  EvictDownTo(budget_);
  return claim;
}

PrefixCache::Claim PrefixCache::Hold(Snapshot state) {
  std::lock_guard lock(mutex_);
  Count(*state);
  Claim claim;
  claim.cache_ = this;
  claim.state_ = std::move(state);
  EvictDownTo(budget_);
  return claim;
}

PrefixCache::Claim& PrefixCache::Claim::operator=(Claim&& other) noexcept {
  Drop();
  cache_ = std::exchange(other.cache_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  state_ = std::move(other.state_);
  return *this;
}

void PrefixCache::Claim::Drop() noexcept {
  if (cache_ == nullptr) return;
  {
    std::lock_guard lock(cache_->mutex_);
    cache_->reserved_bytes_ -= bytes_;
    if (state_) cache_->Discount(*state_);
  }
  cache_ = nullptr;
  state_.reset();
}

void PrefixCache::SetBudget(uint64_t budget) {
  std::lock_guard lock(mutex_);
  budget_ = budget;
  EvictDownTo(budget_);
}

void PrefixCache::OnEvict(std::function<void(const Sequence*)> told) {
  std::lock_guard lock(mutex_);
  on_evict_ = std::move(told);
}

void PrefixCache::Count(const Sequence& state) {
  if (holders_[&state]++ > 0) return;
  state_bytes_ += OwnBytes(state);
  ForEachBlock(state, [this](const void* block, uint64_t bytes) {
    Rows& rows = rows_[block];
    if (rows.states++ == 0) {
      rows.bytes = bytes;
      state_bytes_ += bytes;
    }
  });
}

void PrefixCache::Discount(const Sequence& state) {
  const auto holders = holders_.find(&state);
  if (--holders->second > 0) return;
  holders_.erase(holders);
  state_bytes_ -= OwnBytes(state);
  ForEachBlock(state, [this](const void* block, uint64_t) {
    const auto rows = rows_.find(block);
    if (--rows->second.states > 0) return;
    state_bytes_ -= rows->second.bytes;
    rows_.erase(rows);
  });
}

EntryWorth PrefixCache::WorthOf(PrefixTree::Id id, const Entry& entry) const {
  EntryHistory history{.length = tree_.Length(id),
                       .turns = entry.turn.turn,
                       .conversations = entry.conversations,
                       .junction = entry.place == Place::kJunction,
                       .side = entry.turn.hints.side,
                       .idle_requests = request_ - entry.last_use};
  tree_.ForEachBelow(id, [&](PrefixTree::Id below) {
    history.turns_below = std::max(history.turns_below, entries_.at(below).turn.turn);
  });
  EntryWorth worth{.cls = ClassOf(history),
                   .rebuild_tokens = history.length - tree_.LengthAbove(id),
                   .bytes = OwnBytes(*entry.state),
                   .credit = entry.credit,
                   .last_use = entry.last_use};
  ForEachBlock(*entry.state, [&](const void* block, uint64_t bytes) {
    if (rows_.at(block).states == 1) worth.bytes += bytes;
  });
  return worth;
}

void PrefixCache::EvictDownTo(uint64_t budget) {
  while (Bytes() > budget && !entries_.empty()) {
    std::vector<PrefixTree::Id> ids;
    std::vector<EntryWorth> worths;
    for (const bool held : {false, true}) {
      if (!ids.empty()) break;
      for (const auto& [id, entry] : entries_) {
        if ((holders_.at(entry.state.get()) > 1) != held) continue;
        ids.push_back(id);
        worths.push_back(WorthOf(id, entry));
      }
    }
    const size_t victim = ChooseVictim(worths);
    credit_ = std::max(credit_, Value(worths[victim]));
    ++stats_.evicted[static_cast<size_t>(worths[victim].cls)];
    Forget(ids[victim]);
  }
}

void PrefixCache::Forget(PrefixTree::Id id) {
  const auto entry = entries_.find(id);
  if (on_evict_) on_evict_(entry->second.state.get());
  Discount(*entry->second.state);
  tree_.Erase(id);
  entries_.erase(entry);
}

PrefixCacheStats PrefixCache::stats() const {
  std::lock_guard lock(mutex_);
  PrefixCacheStats stats = stats_;
  stats.entries = entries_.size();
  stats.bytes = Bytes();
  stats.budget = budget_;
  return stats;
}

std::vector<std::vector<PrefixKey>> PrefixCache::Entries() const {
  std::lock_guard lock(mutex_);
  std::vector<std::vector<PrefixKey>> all;
  for (const auto& [id, entry] : entries_) all.push_back(tree_.Keys(id));
  std::ranges::sort(all);
  return all;
}

}  // namespace slotstream::state
