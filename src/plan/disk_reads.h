// Reads of a checkpoint's items as measurements need them: some at a time, without a pause.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "io/read_queue.h"

namespace slotstream::plan {

// As many as keep a fast drive busy: 16 records of 2.76 MB are 176 reads.
inline constexpr size_t kRecordsInFlight = 16;

// Reads numbered items, some at a time, each made of pieces.
class DiskReader {
 public:
  DiskReader(io::ReadQueue& queue, const Clock& clock) : queue_(queue), clock_(clock) {}

  // Reads items without a pause until `batches` batches are over, each of at least `least` items
  // and `seconds`. `start(area)` fills pieces_ and says where to; `finish(area)` judges what
  // arrived. Returns items per second of each batch.
  template <typename Start, typename Finish>
  Result<std::vector<double>> Run(size_t areas, size_t batches, size_t least, double seconds,
                                  const Start& start, const Finish& finish) {
    std::vector<size_t> left(areas);
    std::vector<double> rates;
    uint64_t begin = clock_.NowNanos();
    size_t done = 0;
    const auto submit = [&](size_t area) {
      pieces_.clear();
      std::byte* base = start(area, pieces_);
      requests_.clear();
      for (const checkpoint::ReadPiece& piece : pieces_) {
        requests_.push_back(piece.Request(base, area));
      }
      left[area] = requests_.size();
      queue_.Submit(requests_);
    };
    for (size_t area = 0; area < areas; ++area) submit(area);
    while (rates.size() < batches) {
      completions_.clear();
      queue_.Wait(1, completions_);
      for (io::ReadCompletion& completion : completions_) {
        if (!completion.status) {
          queue_.Drain();
          return std::unexpected(std::move(completion.status).error());
        }
        const size_t area = completion.tag;
        if (--left[area] > 0) continue;
        if (Status status = finish(area); !status) {
          queue_.Drain();
          return std::unexpected(std::move(status).error());
        }
        ++done;
        submit(area);
      }
      const double elapsed = static_cast<double>(clock_.NowNanos() - begin) * 1e-9;
      if (done < least || elapsed < seconds) continue;
      rates.push_back(static_cast<double>(done) / std::max(elapsed, 1e-9));
      begin = clock_.NowNanos();
      done = 0;
    }
    queue_.Drain();
    return rates;
  }

 private:
  io::ReadQueue& queue_;
  const Clock& clock_;
  std::vector<checkpoint::ReadPiece> pieces_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
};

struct RecordPlace {
  uint32_t layer = 0, expert = 0;
};

// Reads the records that `next()` names, `in_flight` at a time, and checks them: bytes per second
// of each of `batches` batches, which together take `seconds` at least. Memory: the records in
// flight.
template <typename Next>
Result<std::vector<double>> ReadRecords(const checkpoint::ExpertFormat& format, DiskReader& reader,
                                        size_t in_flight, size_t batches, double seconds,
                                        Next next) {
  const size_t record_bytes = format.shape().record_bytes();
  const size_t staging_bytes = AlignUp(format.staging_bytes(), kPageSize);
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(in_flight * (record_bytes + staging_bytes),
                                              "the records of a measurement"));
  std::vector<RecordPlace> places(in_flight);
  const auto record = [&](size_t area) {
    return memory.data() + area * (record_bytes + staging_bytes);
  };
  SS_ASSIGN_OR_RETURN(std::vector<double> rates,
                      reader.Run(
                          in_flight, batches, in_flight, seconds / static_cast<double>(batches),
                          [&](size_t area, std::vector<checkpoint::ReadPiece>& pieces) {
                            places[area] = next();
                            format.AppendPieces(places[area].layer, places[area].expert, pieces);
                            return record(area) + (staging_bytes > 0 ? record_bytes : 0);
                          },
                          [&](size_t area) {
                            const std::span<std::byte> bytes(record(area), record_bytes);
                            return format.Finish(
                                places[area].layer, places[area].expert,
                                {record(area) + record_bytes, format.staging_bytes()}, bytes);
                          }));
  for (double& rate : rates) rate *= static_cast<double>(record_bytes);
  return rates;
}

// Names records from the beginning of `layer` on, layer after layer.
class RecordsInOrder {
 public:
  RecordsInOrder(const checkpoint::ExpertFormat& format, uint32_t layer)
      : format_(format), at_{layer, 0} {}
  RecordPlace operator()() {
    const RecordPlace place = at_;
    if (++at_.expert == format_.experts()) at_ = {(at_.layer + 1) % format_.layers(), 0};
    return place;
  }

 private:
  const checkpoint::ExpertFormat& format_;
  RecordPlace at_;
};

}  // namespace slotstream::plan
