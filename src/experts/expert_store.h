// Experts by (layer, expert), from the pool or from disk.
//
//   few rows    the pool: hits are pinned, victims chosen, misses read into their slots
//   many rows   the sweep: nearly every expert of a layer is needed once, so misses pass through a
//               ring of records beside the pool, in file order, and the pool stays as it is
//
// Either way a layer's experts become ready in batches, resident ones first; the caller combines
// their results in the router's order, so that neither the path nor the order of arrival changes
// a bit.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "experts/admission.h"
#include "experts/record_reader.h"
#include "experts/slot_pool.h"
#include "io/read_queue.h"

namespace slotstream::experts {

struct StoreOptions {
  uint32_t layers = 0;         // that the pool serves: the trunk's, and the draft head's if it runs
  uint32_t token_needs = 0;    // experts that a token needs of all of them
  uint32_t slots = 0;          // of the pool
  uint32_t most_slots = 0;     // that Resize may give it; 0: no more than `slots`
  uint32_t sweep_records = 0;  // ring of the sweep, in records; at least 2
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
  uint64_t retries = 0;  // records read again after a failed check
  uint64_t bytes_read = 0;
  uint64_t read_nanos = 0;  // time with a read in flight
  uint64_t wait_nanos = 0;  // time the computation waited for reads
};

// Not thread-safe: one pass at a time. Records that are ready may be read by any thread.
class ExpertStore {
 public:
  // `format` and `queue` must outlive the store; nothing else uses the queue.
  static Result<std::unique_ptr<ExpertStore>> Create(const checkpoint::ExpertFormat& format,
                                                     std::unique_ptr<io::ReadQueue> queue,
                                                     const StoreOptions& options);
  ~ExpertStore();

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

  const checkpoint::ExpertShape& shape() const { return format_.shape(); }
  const SlotPool& pool() const { return pool_; }
  StoreStats stats() const;
  uint64_t bytes() const;  // of pool, ring and staging

 private:
  struct Visit {
    uint32_t layer = 0;
    std::vector<ExpertNeed> needs;
    bool sweep = false;
    bool open = false;
    std::vector<uint32_t> missing;  // needs to read; of a sweep in file order
    size_t next_missing = 0;
    size_t unmet = 0;                // needs not yet returned by Next
    std::vector<ReadyExpert> ready;  // met, not yet returned
    std::vector<uint32_t> pinned;    // slots
    std::vector<uint32_t> returned;  // sweep: needs whose ring records the caller holds
    std::vector<uint32_t> place;     // per need: claimed slot, or ring record
    std::vector<bool> in_pool;       // per need: its place is a slot
  };

  ExpertStore(const checkpoint::ExpertFormat& format, std::unique_ptr<io::ReadQueue> queue,
              SlotPool pool, RecordReader reader, AlignedBuffer ring, const StoreOptions& options);

  Status ClaimSlots(std::span<const uint32_t> needs);
  Status StartPoolReads();
  void StartSweepReads();
  void StartRead(uint32_t need);
  void SortByFile(std::span<uint32_t> needs) const;
  Status Collect();
  void RecycleRing();
  Status Abort(Status status);
  std::byte* RecordOf(uint32_t need);

  const checkpoint::ExpertFormat& format_;
  std::unique_ptr<io::ReadQueue> queue_;
  SlotPool pool_;
  RecordReader reader_;
  AlignedBuffer ring_;
  StoreOptions options_;
  std::vector<uint32_t> ring_free_;
  Visit visit_;
  // Kept to avoid allocation on the path.
  std::vector<RecordDone> done_;
  std::vector<ExpertKey> claims_;
  StoreStats stats_;
};

}  // namespace slotstream::experts
