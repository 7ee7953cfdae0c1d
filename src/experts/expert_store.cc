#include "experts/expert_store.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace slotstream::experts {
namespace {

constexpr uint32_t kNoPlace = UINT32_MAX;

}  // namespace

Result<std::unique_ptr<ExpertStore>> ExpertStore::Create(const checkpoint::ExpertFormat& format,
                                                         std::unique_ptr<io::ReadQueue> queue,
                                                         const StoreOptions& options) {
  const size_t record_bytes = format.shape().record_bytes();
  SS_ASSIGN_OR_RETURN(SlotPool pool, SlotPool::Create(options.slots, record_bytes, options.layers,
                                                      format.experts()));
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
  visit_.admit.assign(needs.size(), false);

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
  std::sort(visit_.missing.begin(), visit_.missing.end(), [&](uint32_t a, uint32_t b) {
    return format_.FileOrder(layer, needs[a].expert) < format_.FileOrder(layer, needs[b].expert);
  });
  if (visit_.missing.empty()) return {};
  if (visit_.sweep) {
    if (admit) ChooseAdmissions();
    StartSweepReads();
    return {};
  }
  return Abort(StartPoolReads());
}

void ExpertStore::ChooseAdmissions() {
  const uint32_t share = std::max(1u, pool_.slots() / options_.layers);
  const auto hits = static_cast<uint32_t>(visit_.ready.size());
  if (hits >= share) return;
  std::vector<uint32_t> hottest = visit_.missing;
  std::stable_sort(hottest.begin(), hottest.end(), [this](uint32_t a, uint32_t b) {
    return visit_.needs[a].rows > visit_.needs[b].rows;
  });
  hottest.resize(std::min<size_t>(hottest.size(), share - hits));
  for (uint32_t need : hottest) visit_.admit[need] = true;
}

// Starts as many reads as the pool has slots to put them in, none while hits hold them all; the
// rest follow when these are done.
Status ExpertStore::StartPoolReads() {
  const size_t room = pool_.slots() - visit_.pinned.size();
  const size_t left = visit_.missing.size() - visit_.next_missing;
  const auto count = static_cast<uint32_t>(std::min(room, left));
  SS_ASSIGN_OR_RETURN(std::vector<uint32_t> claimed, pool_.Claim(count));
  for (uint32_t slot : claimed) {
    const uint32_t need = visit_.missing[visit_.next_missing++];
    visit_.place[need] = slot;
    reader_.Start({.key = {visit_.layer, visit_.needs[need].expert},
                   .record = pool_.data(slot),
                   .tag = need});
  }
  return {};
}

void ExpertStore::StartSweepReads() {
  while (!ring_free_.empty() && visit_.next_missing < visit_.missing.size()) {
    const uint32_t need = visit_.missing[visit_.next_missing++];
    const uint32_t record = ring_free_.back();
    ring_free_.pop_back();
    visit_.place[need] = record;
    reader_.Start({.key = {visit_.layer, visit_.needs[need].expert},
                   .record = RingRecord(record),
                   .tag = need});
  }
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
    const uint32_t place = visit_.place[done.tag];
    if (!done.status) {
      if (failed) failed = std::move(done.status);
      continue;
    }
    if (visit_.sweep) {
      ++stats_.swept;
      visit_.ready.push_back({done.tag, RingRecord(place)});
    } else {
      ++stats_.misses;
      pool_.Publish(place, {visit_.layer, visit_.needs[done.tag].expert});
      visit_.pinned.push_back(place);
      visit_.place[done.tag] = kNoPlace;
      visit_.ready.push_back({done.tag, pool_.data(place)});
    }
  }
  return failed;
}

// Takes back the ring records that the caller has used, keeping those to be admitted.
void ExpertStore::RecycleRing() {
  for (uint32_t need : visit_.returned) {
    const uint32_t record = visit_.place[need];
    if (visit_.admit[need]) {
      if (auto slot = pool_.Claim(1)) {
        std::memcpy(pool_.data((*slot)[0]), RingRecord(record), shape().record_bytes());
        pool_.Publish((*slot)[0], {visit_.layer, visit_.needs[need].expert});
        pool_.Unpin((*slot)[0]);
      }
    }
    visit_.place[need] = kNoPlace;
    ring_free_.push_back(record);
  }
  visit_.returned.clear();
}

void ExpertStore::End() {
  if (!visit_.open) return;
  if (reader_.outstanding() > 0) reader_.Drain();
  RecycleRing();
  for (uint32_t slot : visit_.pinned) pool_.Unpin(slot);
  for (uint32_t place : visit_.place) {
    if (place == kNoPlace) continue;
    if (visit_.sweep) {
      ring_free_.push_back(place);
    } else {
      pool_.Abandon(place);
    }
  }
  visit_.pinned.clear();
  visit_.place.clear();
  visit_.ready.clear();
  visit_.open = false;
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
