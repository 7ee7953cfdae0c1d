// Experts by (layer, expert), from the pool or from disk.
//
//   few rows    the pool: hits are pinned, victims chosen, misses read into their slots
//   many rows   the sweep: nearly every expert of a layer is needed once, so misses pass through
//               frames beside the pool, in file order, and the pool stays as it is
//
// Either way a layer's experts become ready in batches, resident ones first; the caller combines
// their results in the router's order, so that neither the path nor the order of arrival changes
// a bit.
//
// What the next layer is expected to need is read ahead into free frames while nothing else waits
// for the disk. Such a record takes a slot, and a victim its leave, only when it is really needed,
// so reading ahead changes when bytes come and not what the pool holds.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "experts/admission.h"
#include "experts/pool_snapshot.h"
#include "experts/record_reader.h"
#include "experts/slot_pool.h"
#include "experts/staged_experts.h"
#include "io/read_queue.h"

namespace slotstream::experts {

struct StoreOptions {
  uint32_t layers = 0;         // that the pool serves: the trunk's, and the draft head's if it runs
  uint32_t token_needs = 0;    // experts that a token needs of all of them
  uint32_t slots = 0;          // of the pool
  uint32_t most_slots = 0;     // that Resize may give it; 0: no more than `slots`
  uint32_t sweep_records = 0;  // frames beside the pool; at least 2
  uint32_t sweep_rows = 0;     // passes of at least this many rows sweep
};

// The `need`-th entry of the needs is ready at `record`.
struct ReadyExpert {
  uint32_t need = 0;
  const std::byte* record = nullptr;
};

struct StoreStats {
  uint64_t hits = 0;    // needs met by the pool
  uint64_t misses = 0;  // needs read for the pool
  uint64_t swept = 0;   // needs read past the pool
  uint64_t evictions = 0;
  uint64_t reads = 0;       // of records, those that failed and those in vain included
  uint64_t retries = 0;     // records read again after a failed check
  uint64_t read_ahead = 0;  // records of misses and swept that were asked for before their visit
  uint64_t wasted = 0;      // records read ahead for nothing
  uint64_t bytes_read = 0;
  uint64_t read_nanos = 0;  // time with a read in flight
  uint64_t wait_nanos = 0;  // time the computation waited for reads
};

// Not thread-safe: one pass at a time. Records that are ready may be read by any thread.
class ExpertStore {
 public:
  // `format` and `clock` must outlive the store.
  static Result<std::unique_ptr<ExpertStore>> Create(const checkpoint::ExpertFormat& format,
                                                     std::unique_ptr<io::ReadQueue> queue,
                                                     const StoreOptions& options,
                                                     const Clock& clock);

  // Opens a visit of one layer. `needs` are distinct; `rows` is the size of the pass. With `admit`,
  // some of the experts that a sweep reads stay in the pool (ChooseAdmissions). What the pool
  // holds afterwards depends on the visits alone, not on the order in which reads are done, so that
  // a replay finds the same hits. Reads start at once.
  Status Begin(uint32_t layer, std::span<const ExpertNeed> needs, uint32_t rows, bool admit);

  // Replaces `ready` with the next experts, waiting if none is ready; leaves it empty when all
  // needs were met. What was ready before may not be used any more. On an error (kIo, kCorrupt,
  // kResourceLimit) the visit is over: nothing is pinned, and no slot names bytes it does not hold.
  Status Next(std::vector<ReadyExpert>& ready);

  // Ends a visit early, or after the last Next. Idempotent.
  void End();

  // Gives the pool `slots` slots, between visits (an open one is ended). See SlotPool::Resize.
  Status Resize(uint32_t slots);
  // The next visit is likely to be of `layer` and to need `experts`, the likeliest first: what of
  // them is not in the pool is read into free frames, at most `at_once` records in flight, once
  // the open visit leaves the disk idle. Whatever its visit does not need is dropped. Replaces what
  // was expected before and not begun. Errors of such reads are nobody's until they are needed.
  void Expect(uint32_t layer, std::span<const uint32_t> experts, uint32_t at_once);
  bool sweeps(size_t rows) const { return rows >= options_.sweep_rows; }

  const checkpoint::ExpertShape& shape() const { return format_.shape(); }
  const SlotPool& pool() const { return pool_; }
  const Clock& clock() const { return clock_; }
  StoreStats stats() const;
  PoolSnapshot Snapshot() const;
  uint64_t bytes() const;  // of pool, frames and staging

 private:
  // Where a need is met: `slot` claimed in the pool, or a `frame`.
  struct Place {
    std::optional<uint32_t> slot;
    std::optional<uint32_t> frame;
  };
  // What a taken frame is for.
  struct FrameUse {
    std::optional<uint32_t> need;  // of the open visit
    bool awaited = false;          // the need is met as soon as the read is done
    bool dropped = false;          // released as soon as the read is done
    bool early = false;            // the read began before its visit
  };
  struct Visit {
    uint32_t layer = 0;
    std::vector<ExpertNeed> needs;
    bool sweep = false;
    bool open = false;
    std::vector<uint32_t> missing;  // needs to read; of a sweep in file order
    size_t next_missing = 0;
    size_t unmet = 0;                // needs not yet returned by Next
    size_t awaited = 0;              // needs whose reads are not done
    std::vector<ReadyExpert> ready;  // met, not yet returned
    std::vector<uint32_t> pinned;    // slots
    std::vector<uint32_t> returned;  // sweep: needs whose frames the caller holds
    std::vector<Place> places;       // per need
  };

  ExpertStore(const checkpoint::ExpertFormat& format, SlotPool pool, StagedExperts staged,
              std::unique_ptr<RecordReader> reader, const StoreOptions& options,
              const Clock& clock);

  ExpertKey KeyOf(uint32_t need) const { return {visit_.layer, visit_.needs[need].expert}; }
  Status ClaimSlots(std::span<const uint32_t> needs);
  Status StartPoolReads();
  void StartSweepReads();
  bool FromFrame(uint32_t need);
  void StartRead(uint32_t need, uint32_t tag, std::byte* record);
  void SubmitReads();
  void Meet(uint32_t need, std::optional<uint32_t> frame);
  void DropUnneeded();
  void KeepOrRelease(uint32_t frame);
  void ReadAhead();
  void SortByFile(std::span<uint32_t> needs) const;
  Status Collect();
  Status TakeSlotRead(RecordDone& done);
  Status TakeFrameRead(RecordDone& done);
  void ReleaseReturned();
  void Release(uint32_t frame);
  Status Abort(Status status);

  const checkpoint::ExpertFormat& format_;
  const Clock& clock_;
  StoreOptions options_;
  SlotPool pool_;
  StagedExperts staged_;
  std::deque<ExpertKey> expected_;
  std::vector<FrameUse> uses_;  // per frame
  std::vector<LayerCounts> layer_counts_;
  Visit visit_;
  StoreStats stats_;
  // Kept to avoid allocation on the path.
  std::vector<RecordDone> done_;
  std::vector<RecordRead> reads_;
  std::vector<ExpertKey> claims_;
  // Last, so first to go: no read in flight outlives the memory it writes.
  std::unique_ptr<RecordReader> reader_;
};

}  // namespace slotstream::experts
