// Rows of an n-gram table: asked for as soon as the ids are known, there when the layer comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "io/read_queue.h"

namespace slotstream::experts {

struct NgramStats {
  uint64_t hits = 0;    // distinct rows of a pass found in the cache
  uint64_t misses = 0;  // distinct rows of a pass read from disk
  uint64_t retries = 0;
  uint64_t bytes_read = 0;
  uint64_t wait_nanos = 0;
};

// Rows pass through a cache of bounded size: sets of 8 rows, the oldest of a full set goes. Text
// repeats itself, so the rows of common n-grams stay. Not thread-safe.
class NgramStore {
 public:
  // `format` must outlive the store. `cache_rows` is rounded up to whole sets; `areas`, at least 1,
  // is the most rows in flight.
  static Result<std::unique_ptr<NgramStore>> Create(const checkpoint::NgramFormat& format,
                                                    std::unique_ptr<io::ReadQueue> queue,
                                                    uint64_t cache_rows, uint32_t areas);
  ~NgramStore();

  // Asks for the rows of a pass, repetitions allowed; reads start at once. A batch asked for before
  // and not fetched is dropped.
  void Begin(std::span<const uint64_t> rows);

  // Waits for the batch. On success Row(i) is the i-th row asked for, until the next Begin. On an
  // error (kIo, kCorrupt) the batch is dropped.
  Status Finish();
  const std::byte* Row(size_t i) const { return rows_.data() + place_[i] * format_.row_bytes(); }

  // Gives the cache so many rows, rounded up to whole sets, and forgets what it held: rows would
  // lie in other sets. The batch is dropped. kResourceLimit leaves it as it was.
  Status Resize(uint64_t cache_rows);
  uint64_t cache_rows() const { return cache_row_.size(); }

  const checkpoint::NgramFormat& format() const { return format_; }
  NgramStats stats() const;
  uint64_t bytes() const { return cache_.size() + staging_.size(); }

 private:
  static constexpr uint64_t kWays = 8;
  static constexpr uint64_t kEmpty = UINT64_MAX;

  static uint64_t SetsOf(uint64_t rows) {
    return std::max<uint64_t>(1, (rows + kWays - 1) / kWays);
  }

  struct Area {
    uint32_t place = 0;  // in rows_, of the row being read
    uint32_t pieces_left = 0;
    uint32_t attempts = 0;
    Status status;
  };

  NgramStore(const checkpoint::NgramFormat& format, std::unique_ptr<io::ReadQueue> queue,
             AlignedBuffer cache, AlignedBuffer staging, uint64_t sets, uint32_t areas);

  void StartReads();
  void Submit(uint32_t area);
  Status HandlePiece(io::ReadCompletion& completion);
  void Drop();
  bool CopyFromCache(uint64_t row, std::byte* out) const;
  void CopyToCache(uint64_t row, const std::byte* bytes);
  std::span<std::byte> Staging(uint32_t area);

  const checkpoint::NgramFormat& format_;
  std::unique_ptr<io::ReadQueue> queue_;
  AlignedBuffer cache_;  // [sets, kWays] rows
  AlignedBuffer staging_;
  std::vector<uint64_t> cache_row_;  // [sets, kWays], the row held or kEmpty
  std::vector<uint8_t> next_way_;    // [sets], the oldest way
  std::vector<Area> areas_;
  std::vector<uint32_t> idle_;

  // The batch.
  std::vector<uint32_t> place_;     // per row asked for: its place among the distinct rows
  std::vector<uint64_t> distinct_;  // row numbers
  std::vector<std::byte> rows_;     // [distinct], bytes
  std::vector<uint32_t> missing_;   // places to read
  size_t next_missing_ = 0;
  std::unordered_map<uint64_t, uint32_t> seen_;

  std::vector<checkpoint::ReadPiece> pieces_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
  NgramStats stats_;
};

}  // namespace slotstream::experts
