#include "experts/expert_store.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "experts/segmented_lru.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kNoPlace = UINT32_MAX;

}  // namespace

Result<std::unique_ptr<ExpertStore>> ExpertStore::Create(const checkpoint::ExpertFormat& format,
                                                         std::unique_ptr<io::ReadQueue> queue,
                                                         const StoreOptions& options) {
  const size_t record_bytes = format.shape().record_bytes();
  const uint32_t most_slots = std::max(options.slots, options.most_slots);
  auto policy = SegmentedLruPolicy::ForTokens(most_slots, options.token_needs);
  SS_ASSIGN_OR_RETURN(
      SlotPool pool, SlotPool::Create(options.slots, record_bytes, options.layers, format.experts(),
                                      std::move(policy), most_slots));
  SS_ASSIGN_OR_RETURN(RecordReader reader,
                      RecordReader::Create(format, *queue, options.sweep_records));
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer ring,
      AlignedBuffer::Allocate(options.sweep_records * record_bytes, "the ring of expert records"));
  return std::unique_ptr<ExpertStore>(new ExpertStore(format, std::move(queue), std::move(pool),
                                                      std::move(reader), std::move(ring), options));
}

ExpertStore::ExpertStore(const checkpoint::ExpertFormat& format,
                         std::unique_ptr<io::ReadQueue> queue, SlotPool pool, RecordReader reader,
                         AlignedBuffer ring, const StoreOptions& options)
    : format_(format),
      queue_(std::move(queue)),
      pool_(std::move(pool)),
      reader_(std::move(reader)),
      ring_(std::move(ring)),
      options_(options),
      ring_free_(options.sweep_records) {
  std::iota(ring_free_.begin(), ring_free_.end(), 0u);
}

// No read in flight outlives the memory it writes.
ExpertStore::~ExpertStore() { queue_->Drain(); }

Status ExpertStore::Begin(uint32_t layer, std::span<const ExpertNeed> needs, uint32_t rows,
                          bool admit) {
  End();
  visit_.layer = layer;
  visit_.needs.assign(needs.begin(), needs.end());
  visit_.open = true;
  visit_.sweep = rows >= options_.sweep_rows;
  visit_.missing.clear();
  visit_.next_missing = 0;
  visit_.unmet = needs.size();
  visit_.place.assign(needs.size(), kNoPlace);
  visit_.in_pool.assign(needs.size(), false);

  const bool all_resident = pool_.holds_everything();
  for (uint32_t i = 0; i < needs.size(); ++i) {
    const int32_t slot = pool_.Find({layer, needs[i].expert});
    if (slot < 0) {
      visit_.missing.push_back(i);
      continue;
    }
    ++stats_.hits;
    visit_.ready.push_back({i, pool_.data(static_cast<uint32_t>(slot))});
    if (all_resident) continue;
    // A sweep passes over everything once; that says nothing about what decoding will use.
    if (!visit_.sweep || admit) pool_.Use(static_cast<uint32_t>(slot));
    pool_.Pin(static_cast<uint32_t>(slot));
    visit_.pinned.push_back(static_cast<uint32_t>(slot));
  }
  if (visit_.missing.empty()) return {};
  if (!visit_.sweep) return Abort(StartPoolReads());
  if (admit) {
    const auto hits = static_cast<uint32_t>(visit_.ready.size());
    SS_RETURN_IF_ERROR(Abort(ClaimSlots(
        ChooseAdmissions(visit_.needs, visit_.missing, hits, pool_.slots(), options_.layers))));
  }
  SortByFile(visit_.missing);
  StartSweepReads();
  return {};
}

// Slots in the order of needs, whatever the order of the file or of completion.
Status ExpertStore::ClaimSlots(std::span<const uint32_t> needs) {
  claims_.clear();
  for (uint32_t need : needs) claims_.push_back({visit_.layer, visit_.needs[need].expert});
  SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> claimed, pool_.Claim(claims_));
  for (size_t i = 0; i < needs.size(); ++i) {
    visit_.place[needs[i]] = claimed[i];
    visit_.in_pool[needs[i]] = true;
  }
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
  for (uint32_t need : batch) StartRead(need);
  return {};
}

// Admitted experts go straight to their slots, the others through the ring.
void ExpertStore::StartSweepReads() {
  for (; visit_.next_missing < visit_.missing.size(); ++visit_.next_missing) {
    const uint32_t need = visit_.missing[visit_.next_missing];
    if (!visit_.in_pool[need]) {
      if (ring_free_.empty()) return;
      visit_.place[need] = ring_free_.back();
      ring_free_.pop_back();
    }
    StartRead(need);
  }
}

void ExpertStore::StartRead(uint32_t need) {
  reader_.Start(
      {.key = {visit_.layer, visit_.needs[need].expert}, .record = RecordOf(need), .tag = need});
}

void ExpertStore::SortByFile(std::span<uint32_t> needs) const {
  std::ranges::sort(needs, {}, [this](uint32_t need) {
    return format_.FileOrder(visit_.layer, visit_.needs[need].expert);
  });
}

Status ExpertStore::Next(std::vector<ReadyExpert>& ready) {
  ready.clear();
  if (!visit_.open) return {};
  if (visit_.sweep) {
    RecycleRing();
    StartSweepReads();
  }
  if (visit_.unmet == 0) {
    End();
    return {};
  }
  if (visit_.ready.empty()) {
    if (!visit_.sweep && reader_.outstanding() == 0) {
      // All slots were handed out and their experts used: they can be reused now.
      for (uint32_t slot : visit_.pinned) pool_.Unpin(slot);
      visit_.pinned.clear();
      SS_RETURN_IF_ERROR(Abort(StartPoolReads()));
    }
    SS_RETURN_IF_ERROR(Abort(Collect()));
  }
  // Half of the ring goes to the caller, so that the other half keeps the disk busy meanwhile.
  size_t take = visit_.ready.size();
  if (visit_.sweep) take = std::min<size_t>(take, std::max(1u, options_.sweep_records / 2));
  ready.assign(visit_.ready.begin(), visit_.ready.begin() + static_cast<ptrdiff_t>(take));
  visit_.ready.erase(visit_.ready.begin(), visit_.ready.begin() + static_cast<ptrdiff_t>(take));
  visit_.unmet -= take;
  if (visit_.sweep) {
    for (const ReadyExpert& expert : ready) {
      if (visit_.place[expert.need] != kNoPlace) visit_.returned.push_back(expert.need);
    }
  }
  return {};
}

// Waits for records and makes them ready.
Status ExpertStore::Collect() {
  done_.clear();
  reader_.Wait(done_);
  Status failed;
  for (RecordDone& done : done_) {
    if (!done.status) {
      if (failed) failed = std::move(done.status);
      continue;
    }
    ++(visit_.sweep ? stats_.swept : stats_.misses);
    visit_.ready.push_back({done.tag, RecordOf(done.tag)});
    if (!visit_.in_pool[done.tag]) continue;
    const uint32_t slot = std::exchange(visit_.place[done.tag], kNoPlace);
    pool_.Publish(slot);
    visit_.pinned.push_back(slot);
  }
  return failed;
}

// Takes back the ring records that the caller has used.
void ExpertStore::RecycleRing() {
  for (uint32_t need : visit_.returned) {
    ring_free_.push_back(std::exchange(visit_.place[need], kNoPlace));
  }
  visit_.returned.clear();
}

void ExpertStore::End() {
  if (!visit_.open) return;
  if (reader_.outstanding() > 0) reader_.Drain();
  RecycleRing();
  for (uint32_t slot : visit_.pinned) pool_.Unpin(slot);
  for (uint32_t need = 0; need < visit_.place.size(); ++need) {
    const uint32_t place = visit_.place[need];
    if (place == kNoPlace) continue;
    if (visit_.in_pool[need]) {
      pool_.Abandon(place);
    } else {
      ring_free_.push_back(place);
    }
  }
  visit_.pinned.clear();
  visit_.place.clear();
  visit_.ready.clear();
  visit_.open = false;
}

Status ExpertStore::Resize(uint32_t slots) {
  End();
  return pool_.Resize(slots);
}

// Where the need is read to.
std::byte* ExpertStore::RecordOf(uint32_t need) {
  const uint32_t place = visit_.place[need];
  return visit_.in_pool[need] ? pool_.data(place) : ring_.data() + place * shape().record_bytes();
}

Status ExpertStore::Abort(Status status) {
  if (!status) End();
  return status;
}

StoreStats ExpertStore::stats() const {
  StoreStats stats = stats_;
  stats.evictions = pool_.evictions();
  stats.retries = reader_.retries();
  stats.bytes_read = queue_->stats().bytes;
  stats.read_nanos = queue_->stats().busy_nanos;
  stats.wait_nanos = queue_->stats().wait_nanos;
  return stats;
}

uint64_t ExpertStore::bytes() const {
  return pool_.slots() * shape().record_bytes() + ring_.size() +
         options_.sweep_records * format_.staging_bytes();
}

}  // namespace slotstream::experts
