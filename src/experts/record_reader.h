// Reads whole expert records on a thread of its own: pieces in, a checked record out, a bad read
// tried again. The thread keeps the disk busy and checks what came while its caller computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "experts/slot_pool.h"
#include "io/read_queue.h"

namespace slotstream::experts {

// One record to read into `record` (page-aligned, shape().record_bytes() bytes). Nobody waits for a
// read `ahead`: it starts when at most one other is left in flight and none waits.
struct RecordRead {
  ExpertKey key;
  std::byte* record = nullptr;
  uint32_t tag = 0;  // of reads outstanding at the same time each has its own
  bool ahead = false;
};

struct RecordDone {
  uint32_t tag = 0;
  Status status;  // on failure the record's bytes are unspecified
};

struct RecordReaderStats {
  io::ReadStats io;         // its wait_nanos mean nothing here
  uint64_t records = 0;     // reads done, failed ones included
  uint64_t retries = 0;     // records read again after a failed check
  uint64_t wait_nanos = 0;  // time blocked in Wait
};

// Any number of records may be started; as many as there are areas are in flight, the rest follow,
// those read ahead last. Completion order is free. A record whose bytes fail their check is read
// once more before it fails: a bad sector stays bad, a bad transfer does not. Called by one thread
// at a time.
class RecordReader {
 public:
  // `format` and `clock` must outlive the reader. `areas`, at least 1, is the most records in
  // flight; each takes format.staging_bytes() of memory. kResourceLimit when there is no memory or
  // no thread.
  static Result<std::unique_ptr<RecordReader>> Create(const checkpoint::ExpertFormat& format,
                                                      std::unique_ptr<io::ReadQueue> queue,
                                                      uint32_t areas, const Clock& clock);
  // Drains.
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  void Start(std::span<const RecordRead> reads);
  // At most so many reads ahead are in flight from now on; `areas` at first.
  void LimitAhead(uint32_t records);
  // True if the read ahead of this tag had not started; now it never will, and is never done.
  bool Withdraw(uint32_t tag);
  // Appends finished records to `out`: all that are ready, waiting for one if there is none and
  // anything is outstanding.
  void Wait(std::vector<RecordDone>& out);
  // Abandons everything outstanding; afterwards no memory of the caller's is written.
  void Drain();

  // Reads started, not withdrawn and not handed out.
  size_t outstanding() const;
  RecordReaderStats stats() const;

 private:
  struct Read {
    RecordRead request;
    uint32_t pieces_left = 0;
    uint32_t attempts = 0;
    Status status;
  };

  RecordReader(const checkpoint::ExpertFormat& format, std::unique_ptr<io::ReadQueue> queue,
               AlignedBuffer staging, uint32_t areas, const Clock& clock);

  Status StartThread();
  void Work();
  void Reset();
  void StartWaiting();
  void Begin(const RecordRead& request);
  void Submit(uint32_t index);
  void TakePieces();
  std::optional<uint32_t> NextLanded();
  void FinishRead(uint32_t index, Status status);
  std::span<std::byte> Staging(uint32_t index);

  const checkpoint::ExpertFormat& format_;
  const Clock& clock_;
  AlignedBuffer staging_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable work_there_;
  std::condition_variable done_there_;
  std::unique_ptr<io::ReadQueue> queue_;
  std::vector<Read> reads_;        // in flight, by index
  std::vector<uint32_t> idle_;     // unused indices of reads_
  std::deque<RecordRead> wanted_;  // waiting for an area, as `ahead_`
  std::deque<RecordRead> ahead_;
  uint32_t ahead_limit_;
  uint32_t ahead_in_flight_ = 0;
  std::deque<uint32_t> landed_;  // indices of reads_ whose pieces are all there
  std::vector<RecordDone> done_;
  bool drain_ = false;
  bool stop_ = false;
  RecordReaderStats stats_;
  // Kept to avoid allocation on the path.
  std::vector<checkpoint::ReadPiece> pieces_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;

  std::thread thread_;
};

}  // namespace slotstream::experts
