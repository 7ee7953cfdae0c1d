#include "experts/trace_writer.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "experts/trace_format.h"

namespace slotstream::experts {
namespace {

// What a killed run may lose: 42 decoded tokens of the published model.
constexpr size_t kBatchBytes = size_t{64} << 10;
// A disk this far behind holds up the run, as memory is announced: three passes of 512 tokens.
constexpr size_t kMostBytes = size_t{4} << 20;

}  // namespace

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path) {
  SS_ASSIGN_OR_RETURN(std::unique_ptr<io::FileWriter> file, io::FileWriter::Create(path));
  return std::unique_ptr<TraceWriter>(new TraceWriter(std::move(file)));
}

TraceWriter::TraceWriter(std::unique_ptr<io::FileWriter> file)
    : file_(std::move(file)), thread_([this] { WriterLoop(); }) {}

TraceWriter::~TraceWriter() { Stop(); }

Status TraceWriter::Begin(const TraceHeader& header) {
  const uint64_t experts = uint64_t{header.layers} * header.experts;
  if (header.layers >= kTraceEnd || experts > kMaxTraceExperts ||
      header.experts > uint32_t{UINT16_MAX} + 1) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: a trace cannot name {} layers of {} experts; run without it",
                            file_->path(), header.layers, header.experts));
  }
  TraceFileHeader bytes = {.magic = kTraceMagic,
                           .version = kTraceVersion,
                           .layers = header.layers,
                           .experts = header.experts,
                           .top_k = header.top_k,
                           .sweep_rows = header.sweep_rows,
                           .crc = 0};
  bytes.crc = Crc32c(std::as_bytes(std::span(&bytes, 1)).first(sizeof(bytes) - sizeof(bytes.crc)));
  AppendBytes(bytes);
  HandOver(/*wait=*/true);
  return {};
}

void TraceWriter::Append(const TraceVisit& visit, std::span<const uint32_t> chosen) {
  AppendBytes(TraceFileRecord{.position = visit.position,
                              .layer = static_cast<uint16_t>(visit.layer),
                              .flags = static_cast<uint16_t>((visit.prompt ? kTracePrompt : 0) |
                                                             (visit.admit ? kTraceAdmit : 0)),
                              .rows = visit.rows});
  for (uint32_t expert : chosen) AppendBytes(static_cast<uint16_t>(expert));
  ++visits_;
  if (filling_.size() >= kBatchBytes) HandOver(/*wait=*/filling_.size() >= kMostBytes);
}

template <typename T>
void TraceWriter::AppendBytes(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  filling_.insert(filling_.end(), bytes.begin(), bytes.end());
}

// Gives what was appended to the thread; if that is busy, waits for it or leaves it for later.
void TraceWriter::HandOver(bool wait) {
  std::unique_lock lock(mutex_);
  if (busy_ && !wait) return;
  changed_.wait(lock, [this] { return !busy_; });
  std::swap(filling_, writing_);
  busy_ = true;
  changed_.notify_all();
}

void TraceWriter::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status TraceWriter::Finish() {
  AppendBytes(TraceFileRecord{.position = visits_, .layer = kTraceEnd, .flags = 0, .rows = 0});
  HandOver(/*wait=*/true);
  Stop();
  return status_;
}

void TraceWriter::WriterLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return busy_ || stop_; });
    if (!busy_) return;
    lock.unlock();
    // After a failure the file repeats it; the run goes on and Finish tells.
    Status status = file_->Append(writing_);
    if (status) status = file_->Sync();
    writing_.clear();
    lock.lock();
    if (status_ && !status) status_ = std::move(status);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace slotstream::experts
