#include "engine/prefix_reuse.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "engine/prefix_identity.h"
#include "engine/prompt_hash.h"
#include "state/snapshot_places.h"

namespace slotstream::engine {
namespace {

// Snapshots of one prompt take at most this share of the cache, so that others' states stay.
constexpr uint64_t kSnapshotShare = 4;
constexpr size_t kMostSnapshots = 16;
// The ids of replies: 2 million tokens of them, or a part of a small cache.
constexpr uint64_t kReplyBytes = 8'000'000;
constexpr uint64_t kReplyShare = 32;

// Tokens that a state on disk must have beyond the one in memory: a second's reading or two.
constexpr size_t kWorthRestoring = 64;
// Tells places of prompts from conversations where states wait to be written.
constexpr uint64_t kJunctions = uint64_t{1} << 63;

std::optional<uint32_t> TurnEnd(const LoadedModel& loaded) {
  const auto tokenizer = loaded.tokenizer();
  return tokenizer ? (*tokenizer)->FindAddedToken("<|im_end|>") : std::nullopt;
}

std::vector<state::PrefixKey> KeysOf(std::span<const uint32_t> ids) {
  return {ids.begin(), ids.end()};
}

// Places behind the turns of a prompt: a turn ends with its token and a line feed.
std::vector<size_t> TurnEnds(std::span<const uint32_t> prompt, std::optional<uint32_t> turn_end) {
  std::vector<size_t> ends;
  for (size_t i = 0; turn_end && i + 1 < prompt.size(); ++i) {
    if (prompt[i] == *turn_end) ends.push_back(i + 2);
  }
  return ends;
}

}  // namespace

PrefixShares SharePrefixMemory(uint64_t bytes, const checkpoint::ModelConfig& config) {
  const uint64_t fixed = state::SequenceBytes(config, 0);
  PrefixShares shares;
  shares.replies = std::min(kReplyBytes, bytes / kReplyShare);
  const uint64_t rest = bytes - shares.replies;
  shares.snapshots = std::clamp<size_t>(rest / kSnapshotShare / fixed, 1, kMostSnapshots);
  // Snapshots of a pass under way, and the state of the last complete pass, are not in the cache.
  const uint64_t under_way = (shares.snapshots + 1) * fixed;
  if (rest >= under_way + 2 * state::SequenceBytes(config, 1)) shares.states = rest - under_way;
  return shares;
}

PrefixReuse::PrefixReuse(LoadedModel& loaded, const PrefixDiskOptions& disk)
    : loaded_(loaded),
      config_(loaded.config()),
      budget_(loaded.plan().prefix_cache_bytes),
      turn_end_(TurnEnd(loaded)),
      cache_(shares().states),
      replies_(shares().replies) {
  if (!disk.directory.empty()) OpenDisk(disk);
}

PrefixReuse::~PrefixReuse() { cache_.OnEvict({}); }

void PrefixReuse::OpenDisk(const PrefixDiskOptions& disk) {
  if (!enabled()) {
    disk_problem_ =
        "the prefix cache in memory is off or too small, and the disk's goes through it";
    return;
  }
  const auto identity = MakePrefixIdentity(loaded_.checkpoint(), loaded_.plan().compute);
  if (!identity) {
    disk_problem_ = identity.error().message;
    return;
  }
  auto store = state::PrefixStore::Open({.directory = disk.directory,
                                         .quota_bytes = disk.quota_bytes,
                                         .min_tokens = disk.min_tokens,
                                         .max_age_seconds = disk.max_age_seconds,
                                         .identity = *identity,
                                         .now = [] { return int64_t{std::time(nullptr)}; }});
  if (!store) {
    disk_problem_ = store.error().message;
    return;
  }
  store_ = std::move(*store);
  writer_ = std::make_unique<PrefixWriter>(*store_, disk.pace);
  cache_.OnEvict([this](const state::Sequence* state) { writer_->Forget(state); });
  store_->ForEachHead([this](const state::PrefixHead& head) {
    // Rows of pictures have no ids of their own; what follows them is not spliced.
    std::vector<uint32_t> ids;
    for (const state::PrefixKey key : head.keys) {
      if (key > UINT32_MAX) break;
      ids.push_back(static_cast<uint32_t>(key));
    }
    const bool whole = ids.size() == head.keys.size();
    if (whole && head.next_id != state::kNoId) ids.push_back(head.next_id);
    for (const state::ReplyNote& note : head.replies) {
      if (note.end > ids.size()) continue;
      PromptHash before;
      before.Add(std::span(ids).first(note.begin));
      Remember(before, note, std::span(ids).subspan(note.begin, note.end - note.begin));
    }
  });
}

PrefixReuse::Use PrefixReuse::Begin(std::span<const uint32_t> prompt, const PromptNotes& notes,
                                    const Request& request) {
  Use use(config_);
  if (!enabled() || prompt.empty()) {
    use.note = "off";
    return use;
  }
  use.keys = KeysOf(prompt);
  use.keep_off_disk = request.keep_off_disk;
  use.replies = notes.replies;
  state::PrefixCache::Hit hit = cache_.Find(use.keys, request.hints);
  use.turn = hit.turn;
  if (!Restore(hit, use)) {
    if (hit.state) {
      use.sequence = *hit.state;
      use.note += fmt::format("memory, turn {}", use.turn.turn);
    } else if (hit.common == 0) {
      use.note += "none: nothing stored begins like this";
    } else {
      use.note += fmt::format("none: no state within the {} tokens that are known", hit.common);
    }
  }
  use.junctions = notes.shared_ends;
  if (hit.common < prompt.size()) use.junctions.push_back(hit.common);
  const std::vector<size_t> turns = TurnEnds(prompt, turn_end_);
  use.places = state::PlaceSnapshots({.begin = use.sequence.length(),
                                      .end = prompt.size(),
                                      .common = hit.common,
                                      .shared_ends = notes.shared_ends,
                                      .turn_ends = turns},
                                     {.most = shares().snapshots});
  return use;
}

// Takes a state from disk where it is worth more than the one in memory.
bool PrefixReuse::Restore(const state::PrefixCache::Hit& hit, Use& use) {
  if (!store_) return false;
  const auto found = store_->Find(use.keys);
  if (!found || found->length < hit.length + kWorthRestoring) return false;
  state::Sequence restored(config_);
  if (Status loaded = store_->Load(use.keys, loaded_.threads(), restored); !loaded) {
    use.note = fmt::format("disk failed ({}); ", loaded.error().message);
    return false;
  }
  const size_t length = restored.length();
  state::PrefixTurn turn = use.turn;
  turn.turn = found->turn;
  use.turn.turn = found->junction ? 1 : found->turn + 1;
  use.sequence = restored;
  use.note = fmt::format("disk, turn {}", use.turn.turn);
  cache_.CountServed(hit, length);
  cache_.Insert(
      std::span(use.keys).first(length), std::make_shared<state::Sequence>(std::move(restored)),
      turn,
      found->junction ? state::PrefixCache::Place::kJunction : state::PrefixCache::Place::kTurn);
  return true;
}

void PrefixReuse::Keep(const Use& use, state::Snapshot state) {
  using Place = state::PrefixCache::Place;
  const size_t length = state->length();
  const bool junction = std::ranges::find(use.junctions, length) != use.junctions.end();
  const auto keys = std::span(use.keys).first(length);
  // Before the cache may evict it.
  if (junction) {
    SaveLater(
        kJunctions | (use.turn.conversation << 24) | length, use,
        {.keys = {keys.begin(), keys.end()}, .state = state, .replies = {}, .junction = true});
  }
  cache_.Insert(keys, std::move(state), use.turn, junction ? Place::kJunction : Place::kTurn);
}

void PrefixReuse::SaveLater(uint64_t conversation, const Use& use,
                            state::PrefixStore::Saving saving) {
  if (!writer_ || use.keep_off_disk) return;
  saving.turn = use.turn.turn;
  const size_t known = saving.keys.size() + (saving.next_id != state::kNoId ? 1 : 0);
  std::ranges::copy_if(use.replies, std::back_inserter(saving.replies),
                       [known](const state::ReplyNote& note) { return note.end <= known; });
  writer_->Schedule(conversation, std::move(saving));
}

void PrefixReuse::End(Use use, const Ended& ended) {
  if (!enabled()) return;
  std::vector<uint32_t> ids(ended.prompt.begin(), ended.prompt.end());
  ids.insert(ids.end(), ended.output.begin(), ended.output.end() - (ended.stop_token ? 1 : 0));
  if (ended.reply != nullptr) {
    const state::ReplyNote note{
        .begin = static_cast<uint32_t>(ended.prompt.size() - ended.reply_ids),
        .end = static_cast<uint32_t>(ids.size()),
        .digest = DigestOf(*ended.reply, *ended.tools)};
    PromptHash before;
    before.Add(std::span(ids).first(note.begin));
    Remember(before, note, std::span(ids).subspan(note.begin));
    use.replies.push_back(note);
  }
  const size_t length = use.sequence.length();
  const uint32_t next_id = length < ids.size() ? ids[length] : state::kNoId;
  ids.resize(length);
  const std::vector<state::PrefixKey> keys = KeysOf(ids);
  const auto state = std::make_shared<state::Sequence>(std::move(use.sequence));
  SaveLater(use.turn.conversation, use,
            {.keys = keys, .state = state, .replies = {}, .next_id = next_id});
  cache_.Insert(keys, state, use.turn, state::PrefixCache::Place::kTurn);
}

void PrefixReuse::Remember(const PromptHash& before, const state::ReplyNote& note,
                           std::span<const uint32_t> ids) {
  replies_.Remember(before, note.digest,
                    std::make_shared<std::vector<uint32_t>>(ids.begin(), ids.end()));
}

std::optional<state::PrefixStoreStats> PrefixReuse::disk_stats() const {
  if (!store_) return std::nullopt;
  return store_->stats();
}

void PrefixReuse::FlushDisk() {
  if (writer_) writer_->Flush();
}

size_t PrefixReuse::Peek(std::span<const uint32_t> prompt) const {
  if (!enabled()) return 0;
  const std::vector<state::PrefixKey> keys = KeysOf(prompt);
  const size_t memory = cache_.Peek(keys);
  const auto disk = store_ ? store_->Find(keys) : std::nullopt;
  return disk && disk->length >= memory + kWorthRestoring ? disk->length : memory;
}

uint64_t PrefixReuse::held() const {
  const uint64_t budget = budget_, states = SharePrefixMemory(budget, config_).states;
  return states == 0 ? 0 : budget - (states - std::min(states, cache_.stats().bytes));
}

void PrefixReuse::SetBudget(uint64_t bytes) {
  const bool less = bytes < budget_;
  budget_ = bytes;
  cache_.SetBudget(shares().states);
  // States are large blocks, but not always large enough for the allocator to give back at once.
  if (less) malloc_trim(0);
}

}  // namespace slotstream::engine
