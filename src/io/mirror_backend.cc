#include "io/mirror_backend.h"

#include <algorithm>

namespace slotstream::io {
namespace {

// A rate is renewed when so much has come: a few records, so that one slow read says little.
constexpr uint64_t kMeasuredBytes = 16 << 20;
// What the newest measurement weighs.
constexpr double kNewest = 0.3;

}  // namespace

MirrorBackend::MirrorBackend(std::unique_ptr<ReadBackend> inner,
                             const std::vector<std::pair<const File*, const File*>>& copies,
                             const Clock& clock)
    : inner_(std::move(inner)), clock_(clock), copies_(copies.begin(), copies.end()) {}

size_t MirrorBackend::Choose(uint64_t id, uint32_t length) const {
  if (const auto failed = failed_.find(id); failed != failed_.end()) return 1 - failed->second;
  const auto done = [length](const Disk& disk) {
    return static_cast<double>(disk.outstanding + length) / disk.rate;
  };
  return done(disks_[1]) < done(disks_[0]) ? 1 : 0;
}

Status MirrorBackend::Start(std::span<const BackendRead> reads) {
  routed_.assign(reads.begin(), reads.end());
  const uint64_t now = clock_.NowNanos();
  for (BackendRead& read : routed_) {
    const auto copy = copies_.find(read.file);
    if (copy == copies_.end()) continue;
    const size_t disk = Choose(read.id, read.length);
    if (disk == 1) read.file = copy->second;
    flights_[read.id] = {disk, read.length};
    Add(disk, read.length, now);
  }
  Status status = inner_->Start(routed_);
  if (status) return status;
  for (const BackendRead& read : routed_) {
    if (const auto flight = flights_.extract(read.id)) {
      Remove(flight.mapped().disk, flight.mapped().length, 0, now);
    }
  }
  return status;
}

size_t MirrorBackend::Reap(std::span<BackendResult> out, bool wait) {
  const size_t count = inner_->Reap(out, wait);
  const uint64_t now = count > 0 ? clock_.NowNanos() : 0;
  for (const BackendResult& result : out.first(count)) {
    const auto flight = flights_.extract(result.id);
    if (!flight) continue;
    const uint64_t brought = result.result > 0 ? static_cast<uint64_t>(result.result) : 0;
    Remove(flight.mapped().disk, flight.mapped().length, brought, now);
    if (result.result < 0) {
      failed_[result.id] = flight.mapped().disk;
    } else {
      failed_.erase(result.id);
    }
  }
  return count;
}

void MirrorBackend::Add(size_t disk, uint32_t length, uint64_t now) {
  Disk& state = disks_[disk];
  if (state.outstanding == 0) state.busy_since = now;
  state.outstanding += length;
}

void MirrorBackend::Remove(size_t disk, uint32_t length, uint64_t brought, uint64_t now) {
  Disk& state = disks_[disk];
  state.outstanding -= length;
  state.bytes += brought;
  state.measured += brought;
  state.busy_nanos += now - state.busy_since;
  state.busy_since = now;
  if (state.measured < kMeasuredBytes || state.busy_nanos == 0) return;
  const double rate = static_cast<double>(state.measured) / static_cast<double>(state.busy_nanos);
  state.rate = (1 - kNewest) * state.rate + kNewest * rate;
  state.measured = 0;
  state.busy_nanos = 0;
}

}  // namespace slotstream::io
