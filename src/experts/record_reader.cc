#include "experts/record_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace slotstream::experts {
namespace {

// A second read of a record whose first failed its check.
constexpr uint32_t kMaxAttempts = 2;

}  // namespace

Result<std::unique_ptr<RecordReader>> RecordReader::Create(const checkpoint::ExpertFormat& format,
                                                           std::unique_ptr<io::ReadQueue> queue,
                                                           uint32_t areas, const Clock& clock) {
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer staging,
      AlignedBuffer::Allocate(areas * format.staging_bytes(), "the staging of expert reads"));
  auto reader = std::unique_ptr<RecordReader>(
      new RecordReader(format, std::move(queue), std::move(staging), areas, clock));
  SS_RETURN_IF_ERROR(reader->StartThread());
  return reader;
}

RecordReader::RecordReader(const checkpoint::ExpertFormat& format,
                           std::unique_ptr<io::ReadQueue> queue, AlignedBuffer staging,
                           uint32_t areas, const Clock& clock)
    : format_(format),
      clock_(clock),
      staging_(std::move(staging)),
      queue_(std::move(queue)),
      reads_(areas),
      ahead_limit_(areas) {
  Reset();
}

Status RecordReader::StartThread() {
  try {
    thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("cannot start the thread that reads experts: {}; raise the limit of "
                            "processes (ulimit -u)",
                            error.what()));
  }
  return {};
}

RecordReader::~RecordReader() {
  if (!thread_.joinable()) return;
  Drain();
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_there_.notify_one();
  thread_.join();
}

void RecordReader::Start(std::span<const RecordRead> reads) {
  if (reads.empty()) return;
  {
    std::lock_guard lock(mutex_);
    for (const RecordRead& read : reads) (read.ahead ? ahead_ : wanted_).push_back(read);
    StartWaiting();
  }
  work_there_.notify_one();
}

void RecordReader::LimitAhead(uint32_t records) {
  std::lock_guard lock(mutex_);
  ahead_limit_ = records;
}

bool RecordReader::Withdraw(uint32_t tag) {
  std::lock_guard lock(mutex_);
  return std::erase_if(ahead_, [tag](const RecordRead& read) { return read.tag == tag; }) > 0;
}

void RecordReader::Wait(std::vector<RecordDone>& out) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] {
    return !done_.empty() || (idle_.size() == reads_.size() && wanted_.empty() && ahead_.empty());
  };
  if (!ready()) {
    const uint64_t begin = clock_.NowNanos();
    done_there_.wait(lock, ready);
    stats_.wait_nanos += clock_.NowNanos() - begin;
  }
  std::ranges::move(done_, std::back_inserter(out));
  done_.clear();
}

// The thread drains the queue: it may be blocked in WaitReady, and only one may reap.
void RecordReader::Drain() {
  std::unique_lock lock(mutex_);
  wanted_.clear();
  ahead_.clear();
  drain_ = true;
  work_there_.notify_one();
  done_there_.wait(lock, [this] { return !drain_; });
}

size_t RecordReader::outstanding() const {
  std::lock_guard lock(mutex_);
  return reads_.size() - idle_.size() + wanted_.size() + ahead_.size() + done_.size();
}

RecordReaderStats RecordReader::stats() const {
  std::lock_guard lock(mutex_);
  RecordReaderStats stats = stats_;
  stats.io = queue_->stats();
  return stats;
}

void RecordReader::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (drain_) {
      queue_->Drain();
      Reset();
      drain_ = false;
      done_there_.notify_all();
    }
    if (stop_) return;
    if (queue_->outstanding() == 0) {
      work_there_.wait(lock, [this] { return stop_ || drain_ || queue_->outstanding() > 0; });
      continue;
    }
    lock.unlock();
    queue_->WaitReady();
    lock.lock();
    TakePieces();
    while (const std::optional<uint32_t> index = NextLanded()) {
      const RecordRead request = reads_[*index].request;
      Status status = std::move(reads_[*index].status);
      if (status) {
        // Not under the lock: the check of a record takes as long as many a read's start.
        lock.unlock();
        status = format_.Finish(request.key.layer, request.key.expert, Staging(*index),
                                {request.record, format_.shape().record_bytes()});
        lock.lock();
        if (!status && reads_[*index].attempts < kMaxAttempts && !drain_) {
          ++stats_.retries;
          Submit(*index);
          continue;
        }
      }
      FinishRead(*index, std::move(status));
      done_there_.notify_one();
    }
    StartWaiting();
  }
}

void RecordReader::Reset() {
  landed_.clear();
  done_.clear();
  ahead_in_flight_ = 0;
  idle_.clear();
  for (uint32_t i = static_cast<uint32_t>(reads_.size()); i > 0; --i) idle_.push_back(i - 1);
}

// One wanted read is left in flight when reads ahead may start: enough for the disk not to idle
// in between, too little to be slowed down much.
void RecordReader::StartWaiting() {
  if (drain_) return;
  while (!idle_.empty() && !wanted_.empty()) {
    Begin(wanted_.front());
    wanted_.pop_front();
  }
  while (!idle_.empty() && !ahead_.empty() && ahead_in_flight_ < ahead_limit_ &&
         reads_.size() - idle_.size() - ahead_in_flight_ <= 1) {
    ++ahead_in_flight_;
    Begin(ahead_.front());
    ahead_.pop_front();
  }
}

void RecordReader::Begin(const RecordRead& request) {
  const uint32_t index = idle_.back();
  idle_.pop_back();
  reads_[index] = Read{.request = request, .pieces_left = 0, .attempts = 0, .status = {}};
  Submit(index);
}

void RecordReader::Submit(uint32_t index) {
  Read& read = reads_[index];
  ++read.attempts;
  read.status = {};
  pieces_.clear();
  requests_.clear();
  format_.AppendPieces(read.request.key.layer, read.request.key.expert, pieces_);
  std::byte* base = staging_.size() > 0 ? Staging(index).data() : read.request.record;
  for (const checkpoint::ReadPiece& piece : pieces_) {
    requests_.push_back(piece.Request(base, index));
  }
  read.pieces_left = static_cast<uint32_t>(requests_.size());
  queue_->Submit(requests_);
}

void RecordReader::TakePieces() {
  completions_.clear();
  queue_->Poll(completions_);
  for (io::ReadCompletion& completion : completions_) {
    const uint32_t index = static_cast<uint32_t>(completion.tag);
    Read& read = reads_[index];
    if (!completion.status && read.status) read.status = std::move(completion.status);
    if (--read.pieces_left == 0) landed_.push_back(index);
  }
}

// Records that somebody waits for are checked first.
std::optional<uint32_t> RecordReader::NextLanded() {
  if (landed_.empty() || drain_) return std::nullopt;
  auto next =
      std::ranges::find_if(landed_, [this](uint32_t i) { return !reads_[i].request.ahead; });
  if (next == landed_.end()) next = landed_.begin();
  const uint32_t index = *next;
  landed_.erase(next);
  return index;
}

void RecordReader::FinishRead(uint32_t index, Status status) {
  const RecordRead& request = reads_[index].request;
  ++stats_.records;
  if (request.ahead) --ahead_in_flight_;
  done_.push_back({.tag = request.tag, .status = std::move(status)});
  idle_.push_back(index);
  StartWaiting();
}

std::span<std::byte> RecordReader::Staging(uint32_t index) {
  const size_t bytes = format_.staging_bytes();
  return staging_.span().subspan(index * bytes, bytes);
}

}  // namespace slotstream::experts
