#include "experts/expert_store.h"

#include <algorithm>
#include <utility>

#include "experts/segmented_lru.h"

namespace slotstream::experts {
namespace {

// Records in flight at once. The disks measured reach their full rate with one or two.
constexpr uint32_t kMostInFlight = 16;

// A read's tag names a frame, or a need that is read straight into its slot.
constexpr uint32_t kSlotRead = 1u << 31;

}  // namespace

Result<std::unique_ptr<ExpertStore>> ExpertStore::Create(const checkpoint::ExpertFormat& format,
                                                         std::unique_ptr<io::ReadQueue> queue,
                                                         const StoreOptions& options,
                                                         const Clock& clock) {
  const size_t record_bytes = format.shape().record_bytes();
  const uint32_t most_slots = std::max(options.slots, options.most_slots);
  auto policy = SegmentedLruPolicy::ForTokens(most_slots, options.token_needs);
  SS_ASSIGN_OR_RETURN(
      SlotPool pool, SlotPool::Create(options.slots, record_bytes, options.layers, format.experts(),
                                      std::move(policy), most_slots));
  SS_ASSIGN_OR_RETURN(
      StagedExperts staged,
      StagedExperts::Create(options.sweep_records, record_bytes, options.layers, format.experts()));
  SS_ASSIGN_OR_RETURN(std::unique_ptr<RecordReader> reader,
                      RecordReader::Create(format, std::move(queue),
                                           std::min(options.sweep_records, kMostInFlight), clock));
  return std::unique_ptr<ExpertStore>(new ExpertStore(format, std::move(pool), std::move(staged),
                                                      std::move(reader), options, clock));
}

ExpertStore::ExpertStore(const checkpoint::ExpertFormat& format, SlotPool pool,
                         StagedExperts staged, std::unique_ptr<RecordReader> reader,
                         const StoreOptions& options, const Clock& clock)
    : format_(format),
      clock_(clock),
      options_(options),
      pool_(std::move(pool)),
      staged_(std::move(staged)),
      uses_(options.sweep_records),
      layer_counts_(options.layers),
      reader_(std::move(reader)) {}

Status ExpertStore::Begin(uint32_t layer, std::span<const ExpertNeed> needs, uint32_t rows,
                          bool admit) {
  End();
  admit = admit || pool_.fits_everything();
  visit_.layer = layer;
  visit_.needs.assign(needs.begin(), needs.end());
  visit_.open = true;
  visit_.sweep = sweeps(rows);
  visit_.missing.clear();
  visit_.next_missing = 0;
  visit_.unmet = needs.size();
  visit_.places.assign(needs.size(), {});

  const bool all_resident = pool_.holds_everything();
  for (uint32_t i = 0; i < needs.size(); ++i) {
    const int32_t slot = pool_.Find(KeyOf(i));
    if (slot < 0) {
      visit_.missing.push_back(i);
      continue;
    }
    ++stats_.hits;
    ++layer_counts_[layer].hits;
    visit_.ready.push_back({i, pool_.data(static_cast<uint32_t>(slot))});
    if (all_resident) continue;
    // A sweep passes over everything once; that says nothing about what decoding will use.
    if (!visit_.sweep || admit) pool_.Use(static_cast<uint32_t>(slot));
    pool_.Pin(static_cast<uint32_t>(slot));
    visit_.pinned.push_back(static_cast<uint32_t>(slot));
  }
  if (all_resident) return {};
  DropUnneeded();
  if (visit_.missing.empty()) return {};
  if (!visit_.sweep) return Abort(StartPoolReads());
  if (admit) {
    const auto hits = static_cast<uint32_t>(visit_.ready.size());
    SS_RETURN_IF_ERROR(Abort(ClaimSlots(
        ChooseAdmissions(visit_.needs, visit_.missing, hits, pool_.slots(), options_.layers))));
  }
  SortByFile(visit_.missing);
  // Before any read begins: frames that have what is needed are not free for others until it is
  // used.
  std::erase_if(visit_.missing, [this](uint32_t need) { return FromFrame(need); });
  StartSweepReads();
  return {};
}

// Slots in the order of needs, whatever the order of the file or of completion.
Status ExpertStore::ClaimSlots(std::span<const uint32_t> needs) {
  claims_.clear();
  for (uint32_t need : needs) claims_.push_back(KeyOf(need));
  SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> claimed, pool_.Claim(claims_));
  for (size_t i = 0; i < needs.size(); ++i) visit_.places[needs[i]].slot = claimed[i];
  return {};
}

// Starts as many reads as the pool has slots to put them in, none while hits hold them all; the
// rest follow when these are done.
Status ExpertStore::StartPoolReads() {
  const size_t room = pool_.slots() - visit_.pinned.size();
  const size_t left = visit_.missing.size() - visit_.next_missing;
  const auto batch = std::span(visit_.missing).subspan(visit_.next_missing, std::min(room, left));
  SS_RETURN_IF_ERROR(ClaimSlots(batch));
  visit_.next_missing += batch.size();
  SortByFile(batch);
  for (uint32_t need : batch) {
    if (FromFrame(need)) continue;
    StartRead(need, kSlotRead | need, pool_.data(*visit_.places[need].slot));
  }
  SubmitReads();
  return {};
}

// Admitted experts go straight to their slots, the others through frames.
void ExpertStore::StartSweepReads() {
  for (; visit_.next_missing < visit_.missing.size(); ++visit_.next_missing) {
    const uint32_t need = visit_.missing[visit_.next_missing];
    Place& place = visit_.places[need];
    if (place.slot) {
      StartRead(need, kSlotRead | need, pool_.data(*place.slot));
      continue;
    }
    if (!staged_.any_free()) break;
    const uint32_t frame = staged_.Take(KeyOf(need));
    place.frame = frame;
    uses_[frame] = {.need = need, .awaited = true};
    StartRead(need, frame, staged_.record(frame));
  }
  SubmitReads();
}

void ExpertStore::StartRead(uint32_t need, uint32_t tag, std::byte* record) {
  ++visit_.awaited;
  reads_.push_back({.key = KeyOf(need), .record = record, .tag = tag});
}

void ExpertStore::SubmitReads() {
  reader_->Start(reads_);
  reads_.clear();
}

// The need's record is in `frame`, or in its slot. Claimed slots get their name and are pinned.
void ExpertStore::Meet(uint32_t need, std::optional<uint32_t> frame) {
  LayerCounts& counts = layer_counts_[visit_.layer];
  ++(visit_.sweep ? stats_.swept : stats_.misses);
  ++(visit_.sweep ? counts.swept : counts.misses);
  Place& place = visit_.places[need];
  if (frame && uses_[*frame].early) ++stats_.read_ahead;
  if (place.slot) {
    const uint32_t slot = *std::exchange(place.slot, std::nullopt);
    if (frame) {
      staged_.Exchange(*frame, pool_.Exchange(slot, staged_.record(*frame)));
      Release(*frame);
    }
    pool_.Publish(slot);
    visit_.pinned.push_back(slot);
    visit_.ready.push_back({need, pool_.data(slot)});
  } else {
    place.frame = frame;
    visit_.ready.push_back({need, staged_.record(*frame)});
  }
}

void ExpertStore::SortByFile(std::span<uint32_t> needs) const {
  std::ranges::sort(needs, {}, [this](uint32_t need) {
    return format_.FileOrder(visit_.layer, visit_.needs[need].expert);
  });
}

Status ExpertStore::Next(std::vector<ReadyExpert>& ready) {
  ready.clear();
  if (!visit_.open) return {};
  ReleaseReturned();
  if (visit_.unmet == 0) {
    End();
    return {};
  }
  if (visit_.sweep) StartSweepReads();
  ReadAhead();
  while (visit_.ready.empty()) {
    if (!visit_.sweep && visit_.awaited == 0) {
      // All slots were handed out and their experts used: they can be reused now.
      for (uint32_t slot : visit_.pinned) pool_.Unpin(slot);
      visit_.pinned.clear();
      SS_RETURN_IF_ERROR(Abort(StartPoolReads()));
      continue;
    }
    SS_RETURN_IF_ERROR(Abort(Collect()));
    if (visit_.sweep) StartSweepReads();
    ReadAhead();
  }
  // Half of the frames go to the caller, so that the other half keep the disk busy meanwhile.
  size_t take = visit_.ready.size();
  if (visit_.sweep) take = std::min<size_t>(take, std::max(1u, options_.sweep_records / 2));
  ready.assign(visit_.ready.begin(), visit_.ready.begin() + static_cast<ptrdiff_t>(take));
  visit_.ready.erase(visit_.ready.begin(), visit_.ready.begin() + static_cast<ptrdiff_t>(take));
  visit_.unmet -= take;
  for (const ReadyExpert& expert : ready) {
    if (visit_.places[expert.need].frame) visit_.returned.push_back(expert.need);
  }
  return {};
}

// Waits for records and takes them in.
Status ExpertStore::Collect() {
  done_.clear();
  reader_->Wait(done_);
  Status failed;
  for (RecordDone& done : done_) {
    Status status = (done.tag & kSlotRead) != 0 ? TakeSlotRead(done) : TakeFrameRead(done);
    if (!status && failed) failed = std::move(status);
  }
  return failed;
}

Status ExpertStore::TakeSlotRead(RecordDone& done) {
  --visit_.awaited;
  if (!done.status) return std::move(done.status);
  Meet(done.tag & ~kSlotRead, std::nullopt);
  return {};
}

void ExpertStore::End() {
  if (!visit_.open) return;
  const bool drained = visit_.awaited > 0;
  if (drained) reader_->Drain();
  visit_.awaited = 0;
  // Frames keep nothing of a visit that ended early, and wait for no read that was abandoned.
  for (uint32_t frame = 0; frame < staged_.frames(); ++frame) {
    if (!staged_.taken(frame)) continue;
    if (drained ? !staged_.landed(frame) || uses_[frame].need
                : staged_.landed(frame) && uses_[frame].need) {
      Release(frame);
    } else if (uses_[frame].need) {
      uses_[frame] = {};
      uses_[frame].dropped = true;
    }
  }
  for (uint32_t slot : visit_.pinned) pool_.Unpin(slot);
  for (const Place& place : visit_.places) {
    if (place.slot) pool_.Abandon(*place.slot);
  }
  visit_.returned.clear();
  visit_.pinned.clear();
  visit_.places.clear();
  visit_.ready.clear();
  visit_.open = false;
  ReadAhead();
}

Status ExpertStore::Resize(uint32_t slots) {
  End();
  expected_.clear();
  reader_->Drain();
  // Slots and frames exchange memory; each gets its own back, so that the pool's can go.
  uint32_t frame = 0;
  for (uint32_t f = 0; f < staged_.frames(); ++f) {
    if (!staged_.taken(f)) continue;
    stats_.wasted += staged_.landed(f) ? 1 : 0;
    Release(f);
  }
  for (uint32_t slot = 0; slot < pool_.slots(); ++slot) {
    if (pool_.Owns(pool_.data(slot))) continue;
    while (!pool_.Owns(staged_.record(frame))) ++frame;
    staged_.Exchange(frame, pool_.Rehouse(slot, staged_.record(frame)));
  }
  return pool_.Resize(slots);
}

Status ExpertStore::Abort(Status status) {
  if (!status) End();
  return status;
}

StoreStats ExpertStore::stats() const {
  StoreStats stats = stats_;
  const RecordReaderStats reader = reader_->stats();
  stats.evictions = pool_.evictions();
  stats.reads = reader.records;
  stats.retries = reader.retries;
  stats.bytes_read = reader.io.bytes;
  stats.read_nanos = reader.io.busy_nanos;
  stats.wait_nanos = reader.wait_nanos;
  return stats;
}

// Walks every expert: some 20 microseconds for the published model's 24,576.
PoolSnapshot ExpertStore::Snapshot() const {
  PoolSnapshot snapshot{.slots = pool_.slots(),
                        .held = pool_.held(),
                        .experts_per_layer = format_.experts(),
                        .layers = layer_counts_,
                        .resident = {}};
  snapshot.resident.reserve(layer_counts_.size() * format_.experts());
  for (uint32_t layer = 0; layer < layer_counts_.size(); ++layer) {
    for (uint32_t expert = 0; expert < format_.experts(); ++expert) {
      snapshot.resident.push_back(pool_.Find({layer, expert}) >= 0 ? 1 : 0);
    }
  }
  return snapshot;
}

uint64_t ExpertStore::bytes() const {
  return pool_.slots() * shape().record_bytes() + staged_.bytes() +
         std::min(options_.sweep_records, kMostInFlight) * format_.staging_bytes();
}

}  // namespace slotstream::experts
