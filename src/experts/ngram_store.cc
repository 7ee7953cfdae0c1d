#include "experts/ngram_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace slotstream::experts {
namespace {

// A second read of a row whose first failed its check.
constexpr uint32_t kMaxAttempts = 2;

// Neighbouring rows must not share a set, or one head's common rows would crowd each other out.
uint64_t Mix(uint64_t row) {
  row *= 0x9e3779b97f4a7c15u;
  return row ^ (row >> 32);
}

}  // namespace

Result<std::unique_ptr<NgramStore>> NgramStore::Create(const checkpoint::NgramFormat& format,
                                                       std::unique_ptr<io::ReadQueue> queue,
                                                       uint64_t cache_rows, uint32_t areas) {
  const uint64_t sets = SetsOf(cache_rows);
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer cache,
      AlignedBuffer::Allocate(sets * kWays * format.row_bytes(), "the cache of n-gram rows"));
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer staging,
      AlignedBuffer::Allocate(areas * format.staging_bytes(), "the staging of n-gram reads"));
  return std::unique_ptr<NgramStore>(
      new NgramStore(format, std::move(queue), std::move(cache), std::move(staging), sets, areas));
}

NgramStore::NgramStore(const checkpoint::NgramFormat& format, std::unique_ptr<io::ReadQueue> queue,
                       AlignedBuffer cache, AlignedBuffer staging, uint64_t sets, uint32_t areas)
    : format_(format),
      queue_(std::move(queue)),
      cache_(std::move(cache)),
      staging_(std::move(staging)),
      cache_row_(sets * kWays, kEmpty),
      next_way_(sets),
      areas_(areas) {
  for (uint32_t i = areas; i > 0; --i) idle_.push_back(i - 1);
}

// No read in flight outlives the memory it writes.
NgramStore::~NgramStore() { queue_->Drain(); }

Status NgramStore::Resize(uint64_t cache_rows) {
  Drop();
  const uint64_t sets = SetsOf(cache_rows);
  if (sets == next_way_.size()) return {};
  SS_ASSIGN_OR_RETURN(cache_, AlignedBuffer::Allocate(sets * kWays * format_.row_bytes(),
                                                      "the cache of n-gram rows"));
  // Fresh vectors, so that the memory of larger ones goes back.
  cache_row_ = std::vector<uint64_t>(sets * kWays, kEmpty);
  next_way_ = std::vector<uint8_t>(sets);
  return {};
}

void NgramStore::Begin(std::span<const uint64_t> rows) {
  Drop();
  for (uint64_t row : rows) {
    auto [entry, inserted] = seen_.try_emplace(row, static_cast<uint32_t>(distinct_.size()));
    if (inserted) distinct_.push_back(row);
    place_.push_back(entry->second);
  }
  rows_.resize(distinct_.size() * format_.row_bytes());
  for (uint32_t place = 0; place < distinct_.size(); ++place) {
    if (CopyFromCache(distinct_[place], rows_.data() + place * format_.row_bytes())) {
      ++stats_.hits;
    } else {
      missing_.push_back(place);
    }
  }
  StartReads();
}

void NgramStore::StartReads() {
  while (!idle_.empty() && next_missing_ < missing_.size()) {
    const uint32_t area = idle_.back();
    idle_.pop_back();
    areas_[area] =
        Area{.place = missing_[next_missing_++], .pieces_left = 0, .attempts = 0, .status = {}};
    Submit(area);
  }
}

void NgramStore::Submit(uint32_t index) {
  Area& area = areas_[index];
  ++area.attempts;
  area.status = {};
  pieces_.clear();
  requests_.clear();
  format_.AppendPieces(distinct_[area.place], pieces_);
  for (const checkpoint::ReadPiece& piece : pieces_) {
    requests_.push_back(piece.Request(Staging(index).data(), index));
  }
  area.pieces_left = static_cast<uint32_t>(requests_.size());
  queue_->Submit(requests_);
}

Status NgramStore::Finish() {
  while (queue_->outstanding() > 0) {
    completions_.clear();
    queue_->Wait(1, completions_);
    for (io::ReadCompletion& completion : completions_) {
      if (Status status = HandlePiece(completion); !status) {
        Drop();
        return status;
      }
    }
    StartReads();
  }
  return {};
}

Status NgramStore::HandlePiece(io::ReadCompletion& completion) {
  const auto index = static_cast<uint32_t>(completion.tag);
  Area& area = areas_[index];
  if (!completion.status && area.status) area.status = std::move(completion.status);
  if (--area.pieces_left > 0) return {};
  std::span<std::byte> row =
      std::span(rows_).subspan(area.place * format_.row_bytes(), format_.row_bytes());
  if (area.status) {
    area.status = format_.Finish(distinct_[area.place], Staging(index), row);
    if (!area.status && area.attempts < kMaxAttempts) {
      ++stats_.retries;
      Submit(index);
      return {};
    }
  }
  SS_RETURN_IF_ERROR(std::move(area.status));
  ++stats_.misses;
  CopyToCache(distinct_[area.place], row.data());
  idle_.push_back(index);
  return {};
}

void NgramStore::Drop() {
  queue_->Drain();
  idle_.clear();
  for (uint32_t i = static_cast<uint32_t>(areas_.size()); i > 0; --i) idle_.push_back(i - 1);
  place_.clear();
  distinct_.clear();
  missing_.clear();
  next_missing_ = 0;
  seen_.clear();
}

bool NgramStore::CopyFromCache(uint64_t row, std::byte* out) const {
  const uint64_t set = Mix(row) % next_way_.size();
  for (uint64_t entry = set * kWays; entry < (set + 1) * kWays; ++entry) {
    if (cache_row_[entry] != row) continue;
    std::memcpy(out, cache_.data() + entry * format_.row_bytes(), format_.row_bytes());
    return true;
  }
  return false;
}

void NgramStore::CopyToCache(uint64_t row, const std::byte* bytes) {
  const uint64_t set = Mix(row) % next_way_.size();
  const uint64_t entry = set * kWays + next_way_[set];
  next_way_[set] = static_cast<uint8_t>((next_way_[set] + 1) % kWays);
  cache_row_[entry] = row;
  std::memcpy(cache_.data() + entry * format_.row_bytes(), bytes, format_.row_bytes());
}

std::span<std::byte> NgramStore::Staging(uint32_t area) {
  return staging_.span().subspan(area * format_.staging_bytes(), format_.staging_bytes());
}

NgramStats NgramStore::stats() const {
  NgramStats stats = stats_;
  stats.bytes_read = queue_->stats().bytes;
  stats.wait_nanos = queue_->stats().wait_nanos;
  return stats;
}

}  // namespace slotstream::experts
