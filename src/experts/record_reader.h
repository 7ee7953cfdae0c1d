// Reads whole expert records: pieces in, a checked record out, a bad read tried again.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "experts/slot_pool.h"
#include "io/read_queue.h"

namespace slotstream::experts {

// One record to read into `record` (page-aligned, shape().record_bytes() bytes).
struct RecordRead {
  ExpertKey key;
  std::byte* record = nullptr;
  uint32_t tag = 0;
};

struct RecordDone {
  uint32_t tag = 0;
  Status status;  // on failure the record's bytes are unspecified
};

// Any number of records may be started; as many as there are areas are in flight, the rest follow.
// Completion order is free. A record whose bytes fail
// their check is read once more before it fails: a bad sector stays bad, a bad transfer does not.
// Not thread-safe.
class RecordReader {
 public:
  // `format` and `queue` must outlive the reader; nothing else uses the queue. `areas`, at least 1,
  // is the most records in flight; each takes format.staging_bytes() of memory.
  static Result<RecordReader> Create(const checkpoint::ExpertFormat& format, io::ReadQueue& queue,
                                     uint32_t areas);

  void Start(const RecordRead& read);
  // Appends finished records to `out`: all that are ready, waiting for one if there is none and
  // anything is outstanding.
  void Wait(std::vector<RecordDone>& out);
  // Abandons everything outstanding; afterwards no memory of the caller's is written.
  void Drain();

  size_t outstanding() const { return reads_.size() - idle_.size() + waiting_.size(); }
  uint64_t retries() const { return retries_; }

 private:
  struct Read {
    RecordRead request;
    uint32_t pieces_left = 0;
    uint32_t attempts = 0;
    Status status;
  };

  RecordReader(const checkpoint::ExpertFormat& format, io::ReadQueue& queue, AlignedBuffer staging,
               uint32_t areas);

  void Submit(uint32_t index);
  void HandlePiece(io::ReadCompletion& completion, std::vector<RecordDone>& out);
  void FinishRead(uint32_t index, std::vector<RecordDone>& out);
  std::span<std::byte> Staging(uint32_t index);

  const checkpoint::ExpertFormat* format_;
  io::ReadQueue* queue_;
  AlignedBuffer staging_;
  std::vector<Read> reads_;     // in flight, by index
  std::vector<uint32_t> idle_;  // unused indices of reads_
  std::deque<RecordRead> waiting_;
  uint64_t retries_ = 0;
  // Kept to avoid allocation on the path.
  std::vector<checkpoint::ReadPiece> pieces_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
};

}  // namespace slotstream::experts
