// How requests go on from states on disk while these are read.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "engine/prefix_reuse.h"

namespace slotstream::engine {
namespace {

// Tokens that a state on disk must have beyond the one in memory: a second's reading or two.
constexpr size_t kWorthRestoring = 64;
constexpr uint64_t kNanosPerMilli = 1'000'000;

}  // namespace

size_t PrefixReuse::Peek(std::span<const uint32_t> prompt) const {
  if (!enabled()) return 0;
  const std::vector<state::PrefixKey> keys = KeysOf(prompt);
  const state::Snapshot in_memory = cache_.Peek(keys);
  const size_t memory = in_memory ? in_memory->length() : 0;
  const auto disk = store_ ? store_->Find(keys) : std::nullopt;
  return disk && disk->length >= memory + kWorthRestoring ? disk->length : memory;
}

bool PrefixReuse::WorthRestoring(const Use& use, size_t in_memory) const {
  if (!store_ || use.no_disk) return false;
  const auto found = store_->Find(use.keys);
  return found && found->length >= in_memory + kWorthRestoring;
}

void PrefixReuse::Restore(Use& use, size_t in_memory) {
  while (WorthRestoring(use, in_memory)) {
    const auto found = store_->Find(use.keys);
    if (!found) return;
    use.room.reset();
    // Without room it goes straight into the request's own sequence, whose memory the plan has.
    use.room = cache_.Reserve(state::SequenceBytes(config_, found->length) +
                              found->length * sizeof(state::PrefixKey));
    auto started = store_->StartRestore(use.keys, config_, use.room.has_value());
    if (!started) {
      NoteFailure(use, started.error());
      continue;
    }
    // The writer may have stored or dropped one in between.
    if ((*started)->length() != found->length) continue;
    use.arriving_ = std::move(*started);
    use.stored_turn = use.turn;
    use.stored_turn.turn = found->turn;
    use.stored_junction = found->junction;
    use.turn.turn = found->junction ? 1 : found->turn + 1;
    return;
  }
  use.room.reset();
}

void PrefixReuse::NoteFailure(Use& use, const Error& error) {
  use.failures += fmt::format("disk failed ({}); ", error.message);
  // Then the store still has the state, and would be asked for it for ever.
  use.no_disk = error.code == ErrorCode::kResourceLimit;
}

void PrefixReuse::Settle(Use& use) {
  if (!use.arriving_ || !use.arriving_->complete()) return;
  const std::unique_ptr<state::ArrivingState> arrived = std::move(use.arriving_);
  store_->EndRestore(*arrived);
  cache_.CountServed(use.hit, arrived->length());
  use.note +=
      fmt::format(", read in {} ms, {} of them waited for", arrived->nanos() / kNanosPerMilli,
                  arrived->waited_nanos() / kNanosPerMilli);
  if (!use.room) return;
  state::Snapshot whole = arrived->Whole();
  use.room.reset();
  using Place = state::PrefixCache::Place;
  const auto keys = std::span(use.keys).first(whole->length());
  cache_.Insert(keys, std::move(whole), use.stored_turn,
                use.stored_junction ? Place::kJunction : Place::kTurn);
}

bool PrefixReuse::FallBack(Use& use) {
  const auto failure = use.arriving_ ? use.arriving_->failure() : std::nullopt;
  if (!failure) return false;
  store_->EndRestore(*use.arriving_);
  NoteFailure(use, *failure);
  // All that was half restored goes before anything else needs memory.
  use.arriving_.reset();
  use.sequence = state::Sequence::WithoutLayers(config_);
  use.room.reset();
  Choose(use, cache_.Peek(use.keys));
  return true;
}

}  // namespace slotstream::engine
