#include <algorithm>
#include <numeric>
#include <random>
#include <span>

#include "base/aligned_buffer.h"
#include "plan/rates.h"

namespace slotstream::plan {
namespace {

using checkpoint::ExpertFormat;
using checkpoint::NgramFormat;
using checkpoint::ReadPiece;

// As many as keep a fast drive busy: 16 records of 2.76 MB are 176 reads.
constexpr size_t kRecordsInFlight = 16;
constexpr size_t kRowsInFlight = 64;  // as the engine's
constexpr size_t kBatches = 4;
constexpr size_t kRowBatch = 256;

// Reads numbered items, some at a time, each made of pieces.
class Reader {
 public:
  Reader(io::ReadQueue& queue, const Clock& clock) : queue_(queue), clock_(clock) {}

  // Reads items until `seconds` and at least `least` items are over. `start(area)` fills pieces_
  // and says where to; `finish(area)` judges what arrived. Returns items per second.
  template <typename Start, typename Finish>
  Result<double> Run(size_t areas, size_t least, double seconds, const Start& start,
                     const Finish& finish) {
    std::vector<size_t> left(areas);
    const uint64_t begin = clock_.NowNanos();
    const auto elapsed = [&] { return static_cast<double>(clock_.NowNanos() - begin) * 1e-9; };
    size_t started = 0, done = 0;
    const auto submit = [&](size_t area) {
      pieces_.clear();
      std::byte* base = start(area, pieces_);
      requests_.clear();
      for (const ReadPiece& piece : pieces_) {
        requests_.push_back({.file = piece.file,
                             .offset = piece.offset,
                             .destination = base + piece.destination,
                             .length = piece.length,
                             .required = piece.required,
                             .tag = area});
      }
      left[area] = requests_.size();
      queue_.Submit(requests_);
      ++started;
    };
    for (size_t area = 0; area < areas; ++area) submit(area);
    while (queue_.outstanding() > 0) {
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
        if (started < least || elapsed() < seconds) submit(area);
      }
    }
    return static_cast<double>(done) / std::max(elapsed(), 1e-9);
  }

 private:
  io::ReadQueue& queue_;
  const Clock& clock_;
  std::vector<ReadPiece> pieces_;
  std::vector<io::ReadRequest> requests_;
  std::vector<io::ReadCompletion> completions_;
};

// Bytes per second of records, `in_flight` at a time.
Result<Range> MeasureRecords(const ExpertFormat& format, Reader& reader, size_t in_flight,
                             double seconds, std::mt19937_64& random) {
  const size_t record_bytes = format.shape().record_bytes();
  const size_t staging_bytes = AlignUp(format.staging_bytes(), kPageSize);
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(in_flight * (record_bytes + staging_bytes),
                                              "the records of a measurement"));
  struct Item {
    uint32_t layer = 0, expert = 0;
  };
  std::vector<Item> items(in_flight);
  const auto record = [&](size_t area) {
    return memory.data() + area * (record_bytes + staging_bytes);
  };
  std::vector<double> rates;
  for (size_t batch = 0; batch < kBatches; ++batch) {
    auto rate = reader.Run(
        in_flight, in_flight, seconds / kBatches,
        [&](size_t area, std::vector<ReadPiece>& pieces) {
          items[area] = {static_cast<uint32_t>(random() % format.layers()),
                         static_cast<uint32_t>(random() % format.experts())};
          format.AppendPieces(items[area].layer, items[area].expert, pieces);
          return record(area) + (staging_bytes > 0 ? record_bytes : 0);
        },
        [&](size_t area) {
          const std::span<std::byte> bytes(record(area), record_bytes);
          return format.Finish(items[area].layer, items[area].expert,
                               {record(area) + record_bytes, format.staging_bytes()}, bytes);
        });
    if (!rate) return std::unexpected(std::move(rate).error());
    rates.push_back(*rate * static_cast<double>(record_bytes));
  }
  return RangeOf(rates);
}

Result<double> MeasureRows(const NgramFormat& format, Reader& reader, std::mt19937_64& random) {
  const size_t staging_bytes = AlignUp(format.staging_bytes(), kPageSize);
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(kRowsInFlight * staging_bytes, "n-gram rows"));
  std::vector<uint64_t> rows(kRowsInFlight);
  std::vector<std::byte> row(format.row_bytes());
  return reader.Run(
      kRowsInFlight, kRowBatch, 0,
      [&](size_t area, std::vector<ReadPiece>& pieces) {
        rows[area] = random() % format.rows();
        format.AppendPieces(rows[area], pieces);
        return memory.data() + area * staging_bytes;
      },
      [&](size_t area) {
        return format.Finish(rows[area],
                             {memory.data() + area * staging_bytes, format.staging_bytes()}, row);
      });
}

}  // namespace

Range RangeOf(const std::vector<double>& rates) {
  const auto [low, high] = std::ranges::minmax(rates);
  const double seconds = std::accumulate(rates.begin(), rates.end(), 0.0,
                                         [](double sum, double rate) { return sum + 1 / rate; });
  // Rounding must not carry the mean past its bounds.
  return {low, std::clamp(static_cast<double>(rates.size()) / seconds, low, high), high};
}

Result<DiskRates> MeasureDisk(const checkpoint::Checkpoint& checkpoint, io::ReadQueue& queue,
                              const Clock& clock, double seconds, uint64_t seed) {
  std::mt19937_64 random(seed);
  Reader reader(queue, clock);
  DiskRates rates;
  SS_ASSIGN_OR_RETURN(rates.single,
                      MeasureRecords(checkpoint.experts(), reader, 1, seconds / 2, random));
  SS_ASSIGN_OR_RETURN(rates.full, MeasureRecords(checkpoint.experts(), reader, kRecordsInFlight,
                                                 seconds / 2, random));
  // A drive is not slower for having more to do; where it looks so, that was chance.
  rates.full.low = std::max(rates.full.low, rates.single.low);
  rates.full.typical = std::max(rates.full.typical, rates.single.typical);
  rates.full.high = std::max(rates.full.high, rates.single.high);
  if (!checkpoint.config().ple_layers.empty()) {
    SS_ASSIGN_OR_RETURN(rates.rows_per_second, MeasureRows(checkpoint.ngrams(0), reader, random));
  }
  return rates;
}

DiskRates AssumedDisk(double bytes_per_second, size_t record_bytes) {
  constexpr double kAccessSeconds = 1e-4;
  constexpr double kMostRows = 500'000;
  const double bytes = static_cast<double>(record_bytes);
  const double single = bytes / (bytes / bytes_per_second + kAccessSeconds);
  const double rows = std::min(kMostRows, bytes_per_second / static_cast<double>(kPageSize));
  return {.single = {single, single, single},
          .full = {bytes_per_second, bytes_per_second, bytes_per_second},
          .rows_per_second = rows};
}

}  // namespace slotstream::plan
