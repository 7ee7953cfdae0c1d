#include "bench/disk_rate.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "experts/ngram_store.h"
#include "io/backend.h"
#include "io/read_queue.h"

namespace slotstream::bench {
namespace {

// Rows in flight, as the planner gives the engine.
constexpr uint32_t kAreas = 256;

std::unique_ptr<io::ReadQueue> MakeQueue(std::unique_ptr<io::ReadBackend> backend) {
  return std::make_unique<io::ReadQueue>(std::move(backend), Clock::Steady());
}

double Since(uint64_t start) {
  return static_cast<double>(Clock::Steady().NowNanos() - start) * 1e-9;
}

using NextPieces = std::function<bool(std::vector<checkpoint::ReadPiece>&)>;

// Reads what `next` names, one thing after another with `in_flight` under way, until it returns
// false. `bytes` is the room of one. Returns the seconds.
Result<double> ReadAll(const NextPieces& next, uint32_t in_flight, size_t bytes,
                       std::unique_ptr<io::ReadBackend> backend) {
  const std::unique_ptr<io::ReadQueue> queue = MakeQueue(std::move(backend));
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(in_flight * bytes, "a measurement of the disk"));
  std::vector<uint32_t> left(in_flight);
  std::vector<checkpoint::ReadPiece> pieces;
  std::vector<io::ReadRequest> requests;
  const auto start = [&](uint32_t place) {
    pieces.clear();
    requests.clear();
    if (!next(pieces)) return;
    for (const checkpoint::ReadPiece& piece : pieces) {
      requests.push_back({.file = piece.file,
                          .offset = piece.offset,
                          .destination = memory.data() + place * bytes + piece.destination,
                          .length = piece.length,
                          .required = piece.required,
                          .tag = place});
    }
    left[place] = static_cast<uint32_t>(requests.size());
    queue->Submit(requests);
  };
  const uint64_t begin = Clock::Steady().NowNanos();
  for (uint32_t place = 0; place < in_flight; ++place) start(place);
  std::vector<io::ReadCompletion> done;
  while (queue->outstanding() > 0) {
    done.clear();
    queue->Wait(1, done);
    for (const io::ReadCompletion& completion : done) {
      SS_RETURN_IF_ERROR(completion.status);
      const auto place = static_cast<uint32_t>(completion.tag);
      if (--left[place] == 0) start(place);
    }
  }
  return Since(begin);
}

std::vector<uint64_t> RandomRows(const checkpoint::NgramFormat& format, uint32_t count) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<uint64_t> rows(count);
  for (uint64_t& row : rows) row = random() % format.rows();
  return rows;
}

}  // namespace

Result<double> MeasureRecordReads(const checkpoint::ExpertFormat& format,
                                  std::unique_ptr<io::ReadBackend> backend, uint32_t in_flight,
                                  double seconds) {
  std::mt19937 random(std::random_device{}());
  const uint64_t begin = Clock::Steady().NowNanos();
  uint64_t records = 0;
  const auto next = [&](std::vector<checkpoint::ReadPiece>& pieces) {
    if (Since(begin) > seconds) return false;
    ++records;
    format.AppendPieces(static_cast<uint32_t>(random() % format.layers()),
                        static_cast<uint32_t>(random() % format.experts()), pieces);
    return true;
  };
  const size_t bytes = std::max(format.shape().record_bytes(), format.staging_bytes());
  SS_ASSIGN_OR_RETURN(const double took, ReadAll(next, in_flight, bytes, std::move(backend)));
  return static_cast<double>(records * format.shape().record_bytes()) / took;
}

Result<double> MeasureRowReads(const checkpoint::NgramFormat& format, uint32_t in_flight,
                               uint32_t count) {
  const std::vector<uint64_t> rows = RandomRows(format, count);
  size_t at = 0;
  const auto next = [&](std::vector<checkpoint::ReadPiece>& pieces) {
    if (at == rows.size()) return false;
    format.AppendPieces(rows[at++], pieces);
    return true;
  };
  SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(io::BackendKind::kAuto, in_flight, nullptr));
  SS_ASSIGN_OR_RETURN(const double took,
                      ReadAll(next, in_flight, format.staging_bytes(), std::move(backend)));
  return static_cast<double>(count) / took;
}

Result<double> MeasureNgramStore(const checkpoint::NgramFormat& format, uint32_t count) {
  const std::vector<uint64_t> rows = RandomRows(format, count);
  SS_ASSIGN_OR_RETURN(auto backend, io::MakeBackend(io::BackendKind::kAuto, kAreas, nullptr));
  SS_ASSIGN_OR_RETURN(const auto store, experts::NgramStore::Create(
                                            format, MakeQueue(std::move(backend)), count, kAreas));
  const uint64_t begin = Clock::Steady().NowNanos();
  store->Begin(rows);
  SS_RETURN_IF_ERROR(store->Finish());
  return static_cast<double>(count) / Since(begin);
}

}  // namespace slotstream::bench
