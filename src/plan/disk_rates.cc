#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <span>

#include "base/aligned_buffer.h"
#include "plan/disk_reads.h"
#include "plan/rates.h"

namespace slotstream::plan {
namespace {

using checkpoint::ExpertFormat;
using checkpoint::NgramFormat;
using checkpoint::ReadPiece;

constexpr size_t kRowsInFlight = 64;  // as the engine's
constexpr size_t kBatches = 4;
constexpr size_t kRowBatch = 256;

Result<Range> RateRecords(const ExpertFormat& format, DiskReader& reader, size_t in_flight,
                          double seconds, auto next) {
  SS_ASSIGN_OR_RETURN(const std::vector<double> rates,
                      ReadRecords(format, reader, in_flight, kBatches, seconds, next));
  return RangeOf(rates);
}

Result<double> MeasureRows(const NgramFormat& format, DiskReader& reader, std::mt19937_64& random) {
  const size_t staging_bytes = AlignUp(format.staging_bytes(), kPageSize);
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(kRowsInFlight * staging_bytes, "n-gram rows"));
  std::vector<uint64_t> rows(kRowsInFlight);
  std::vector<std::byte> row(format.row_bytes());
  SS_ASSIGN_OR_RETURN(
      const std::vector<double> rates,
      reader.Run(
          kRowsInFlight, 1, kRowBatch, 0,
          [&](size_t area, std::vector<ReadPiece>& pieces) {
            rows[area] = random() % format.rows();
            format.AppendPieces(rows[area], pieces);
            return memory.data() + area * staging_bytes;
          },
          [&](size_t area) {
            return format.Finish(
                rows[area], {memory.data() + area * staging_bytes, format.staging_bytes()}, row);
          }));
  return rates.front();
}

void NotBelow(const Range& least, Range& range) {
  range.low = std::max(range.low, least.low);
  range.typical = std::max(range.typical, least.typical);
  range.high = std::max(range.high, least.high);
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
  DiskReader reader(queue, clock);
  DiskRates rates;
  const ExpertFormat& format = checkpoint.experts();
  const auto any = [&] {
    return RecordPlace{static_cast<uint32_t>(random() % format.layers()),
                       static_cast<uint32_t>(random() % format.experts())};
  };
  const double third = seconds / 3;
  SS_ASSIGN_OR_RETURN(rates.single, RateRecords(format, reader, 1, third, any));
  SS_ASSIGN_OR_RETURN(rates.full, RateRecords(format, reader, kRecordsInFlight, third, any));
  RecordsInOrder in_order(format, static_cast<uint32_t>(random() % format.layers()));
  SS_ASSIGN_OR_RETURN(rates.ordered,
                      RateRecords(format, reader, kRecordsInFlight, third, std::ref(in_order)));
  // A drive is not slower for having more to do, nor for doing it in order; where it looks so, that
  // was chance.
  NotBelow(rates.single, rates.full);
  NotBelow(rates.full, rates.ordered);
  if (!checkpoint.config().ple_layers.empty()) {
    SS_ASSIGN_OR_RETURN(rates.rows_per_second, MeasureRows(checkpoint.ngrams(0), reader, random));
  }
  return rates;
}

DiskRates AssumedDisk(double bytes_per_second, size_t record_bytes) {
  constexpr double kAccessSeconds = 1e-4;
  constexpr double kMostRows = 500'000;
  // The kernel's part and the checksum, on Zen 3.
  constexpr double kAssumedCoreSeconds = 0.15e-9;
  const double bytes = static_cast<double>(record_bytes);
  const double single = bytes / (bytes / bytes_per_second + kAccessSeconds);
  const double rows = std::min(kMostRows, bytes_per_second / static_cast<double>(kPageSize));
  return {.single = {single, single, single},
          .full = {bytes_per_second, bytes_per_second, bytes_per_second},
          .ordered = {bytes_per_second, bytes_per_second, bytes_per_second},
          .rows_per_second = rows,
          .core_seconds = kAssumedCoreSeconds};
}

}  // namespace slotstream::plan
