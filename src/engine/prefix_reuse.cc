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

// Tells places of prompts from conversations where states wait to be written.
constexpr uint64_t kJunctions = uint64_t{1} << 63;

std::optional<uint32_t> TurnEnd(const LoadedModel& loaded) {
  const auto tokenizer = loaded.tokenizer();
  return tokenizer ? (*tokenizer)->FindAddedToken("<|im_end|>") : std::nullopt;
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
                                         .now = [] { return int64_t{std::time(nullptr)}; },
                                         .make_backend = disk.make_backend});
  if (!store) {
    disk_problem_ = store.error().message;
    return;
  }
  store_ = std::move(*store);
  writer_ = std::make_unique<PrefixWriter>(*store_, cache_, disk.pace);
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
    use.sequence = state::Sequence(config_);
    use.note = "off";
    return use;
  }
  use.keys = KeysOf(prompt);
  use.keep_off_disk = request.keep_off_disk;
  use.replies = notes.replies;
  use.shared_ends = use.junctions = notes.shared_ends;
  use.turn_ends = TurnEnds(prompt, turn_end_);
  use.hit = cache_.Find(use.keys, request.hints);
  if (use.hit.common < prompt.size()) use.junctions.push_back(use.hit.common);
  Choose(use, std::exchange(use.hit.state, nullptr));
  return use;
}

void PrefixReuse::Choose(Use& use, state::Snapshot in_memory) {
  use.turn = use.hit.turn;
  const size_t length = in_memory ? in_memory->length() : 0;
  if (WorthRestoring(use, length)) {
    in_memory.reset();  // so that its memory may serve
    Restore(use, length);
    if (!use.arriving_) in_memory = cache_.Peek(use.keys);
  }
  use.note = use.failures;
  if (use.arriving_) {
    use.sequence = use.arriving_->Begin();
    use.note += fmt::format("disk, turn {}", use.turn.turn);
  } else if (in_memory) {
    use.sequence = *in_memory;
    use.note += fmt::format("memory, turn {}", use.turn.turn);
  } else {
    use.sequence = state::Sequence(config_);
    use.note +=
        use.hit.common == 0
            ? "none: nothing stored begins like this"
            : fmt::format("none: no state within the {} tokens that are known", use.hit.common);
  }
  use.places = state::PlaceSnapshots({.begin = use.sequence.length(),
                                      .end = use.keys.size(),
                                      .common = use.hit.common,
                                      .shared_ends = use.shared_ends,
                                      .turn_ends = use.turn_ends},
                                     {.most = shares().snapshots});
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
