#include "io/faulty_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace slotstream::io {
namespace {

constexpr int kScribble = 0xdb;

// What the fault returns in place of a read, if it suppresses the read.
std::optional<int64_t> ResultWithoutReading(std::optional<FaultKind> fault) {
  if (!fault) return std::nullopt;
  switch (*fault) {
    case FaultKind::kZeroRead:
      return 0;
    case FaultKind::kInterrupted:
      return -EINTR;
    case FaultKind::kTryAgain:
      return -EAGAIN;
    case FaultKind::kIoError:
      return -EIO;
    case FaultKind::kDeviceGone:
      return -ENODEV;
    default:
      return std::nullopt;
  }
}

void ZeroPage(const BackendRead& read, uint64_t length, uint64_t dice) {
  uint64_t begin = dice % length / kPageSize * kPageSize;
  std::memset(read.destination + begin, 0, std::min<uint64_t>(kPageSize, length - begin));
}

void FlipBit(const BackendRead& read, uint64_t length, uint64_t dice) {
  uint64_t bit = dice % (length * 8);
  read.destination[bit / 8] ^= std::byte{1} << (bit % 8);
}

}  // namespace

FaultyBackend::FaultyBackend(std::unique_ptr<ReadBackend> inner, std::vector<Fault> plan,
                             uint64_t seed)
    : inner_(std::move(inner)), plan_(std::move(plan)), rng_(seed) {}

FaultyBackend::Pending FaultyBackend::Draw(const BackendRead& read) {
  uint64_t number = reads_++;
  Pending pending{read, std::nullopt, rng_()};
  for (const Fault& fault : plan_) {
    if (number < fault.first_read || number - fault.first_read >= fault.count) continue;
    constexpr double kUnit = 0x1p-53;  // 53 random bits as a fraction
    if (static_cast<double>(rng_() >> 11) * kUnit >= fault.probability) continue;
    pending.fault = fault.kind;
    break;
  }
  if (pending.fault == FaultKind::kDeviceGone) device_gone_ = true;
  if (device_gone_) pending.fault = FaultKind::kDeviceGone;
  if (pending.fault) ++faults_;
  return pending;
}

Status FaultyBackend::Start(std::span<const BackendRead> reads) {
  std::vector<Pending> drawn;
  std::vector<Pending> late;
  std::vector<BackendRead> inner_reads;
  bool refused = false;
  for (const BackendRead& read : reads) {
    Pending pending = Draw(read);
    refused |= pending.fault == FaultKind::kStartRefused;
    if (pending.fault == FaultKind::kLate) {
      late.push_back(pending);
      continue;
    }
    if (!ResultWithoutReading(pending.fault)) inner_reads.push_back(read);
    drawn.push_back(pending);
  }
  if (refused) return Fail(ErrorCode::kIo, "a planned fault refused to start reads");
  if (!inner_reads.empty()) SS_RETURN_IF_ERROR(inner_->Start(inner_reads));
  started_.insert(started_.end(), drawn.begin(), drawn.end());
  late_.insert(late_.end(), late.begin(), late.end());
  return {};
}

size_t FaultyBackend::Reap(std::span<BackendResult> out, bool /*wait*/) {
  Collect(started_);
  if (ready_.empty() && !late_.empty()) {
    std::vector<BackendRead> reads;
    for (const Pending& pending : late_) reads.push_back(pending.read);
    if (inner_->Start(reads)) {
      Collect(late_);
    } else {
      for (const Pending& pending : late_) ready_.push_back({pending.read.id, -EIO});
      late_.clear();
    }
  }
  size_t count = std::min(out.size(), ready_.size());
  std::copy_n(ready_.begin(), count, out.begin());
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

// Waits for the results of `reads`, in their order moves them to ready_, and empties `reads`.
void FaultyBackend::Collect(std::vector<Pending>& reads) {
  size_t expected = 0;
  for (const Pending& pending : reads) expected += !ResultWithoutReading(pending.fault);
  std::unordered_map<uint64_t, int64_t> results;
  std::vector<BackendResult> batch(inner_->depth());
  while (results.size() < expected) {
    size_t count = inner_->Reap(batch, true);
    for (const BackendResult& result : std::span(batch).first(count)) {
      results[result.id] = result.result;
    }
  }
  for (const Pending& pending : reads) {
    std::optional<int64_t> made_up = ResultWithoutReading(pending.fault);
    int64_t real = made_up ? *made_up : results[pending.read.id];
    BackendResult result{pending.read.id, Distort(pending, real)};
    uint64_t position = ready_.size();
    if (pending.fault == FaultKind::kReordered) position = pending.dice % (ready_.size() + 1);
    ready_.insert(ready_.begin() + static_cast<ptrdiff_t>(position), result);
  }
  reads.clear();
}

// Applies the fault to a read's memory and returns what its result becomes.
int64_t FaultyBackend::Distort(const Pending& pending, int64_t result) {
  const BackendRead& read = pending.read;
  uint64_t delivered = result > 0 ? static_cast<uint64_t>(result) : 0;
  if (pending.fault == FaultKind::kShortRead && delivered > 1) {
    delivered = 1 + pending.dice % (delivered - 1);
  }
  if (pending.fault == FaultKind::kTruncated && read.length > 0) {
    uint64_t end = read.offset + pending.dice % read.length;
    auto [entry, is_new] = early_end_.try_emplace(read.file, end);
    if (!is_new) entry->second = std::min(entry->second, end);
  }
  if (auto entry = early_end_.find(read.file); entry != early_end_.end()) {
    uint64_t left = entry->second > read.offset ? entry->second - read.offset : 0;
    delivered = std::min(delivered, left);
  }
  if (pending.fault == FaultKind::kFlippedBit && delivered > 0) {
    FlipBit(read, delivered, pending.dice);
  }
  if (pending.fault == FaultKind::kZeroedPage && delivered > 0) {
    ZeroPage(read, delivered, pending.dice);
  }
  std::memset(read.destination + delivered, kScribble, read.length - delivered);
  return result < 0 ? result : static_cast<int64_t>(delivered);
}

}  // namespace slotstream::io
