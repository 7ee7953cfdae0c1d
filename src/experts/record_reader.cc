#include "experts/record_reader.h"

#include <fmt/format.h>

#include <utility>

namespace slotstream::experts {
namespace {

// A second read of a record whose first failed its check.
constexpr uint32_t kMaxAttempts = 2;

}  // namespace

Result<RecordReader> RecordReader::Create(const checkpoint::ExpertFormat& format,
                                          io::ReadQueue& queue, uint32_t areas) {
  SS_ASSIGN_OR_RETURN(
      AlignedBuffer staging,
      AlignedBuffer::Allocate(areas * format.staging_bytes(), "the staging of expert reads"));
  return RecordReader(format, queue, std::move(staging), areas);
}

RecordReader::RecordReader(const checkpoint::ExpertFormat& format, io::ReadQueue& queue,
                           AlignedBuffer staging, uint32_t areas)
    : format_(&format), queue_(&queue), staging_(std::move(staging)), reads_(areas) {
  for (uint32_t i = areas; i > 0; --i) idle_.push_back(i - 1);
}

void RecordReader::Start(const RecordRead& read) {
  if (idle_.empty()) {
    waiting_.push_back(read);
    return;
  }
  const uint32_t index = idle_.back();
  idle_.pop_back();
  reads_[index] = Read{.request = read, .pieces_left = 0, .attempts = 0, .status = {}};
  Submit(index);
}

void RecordReader::Submit(uint32_t index) {
  Read& read = reads_[index];
  ++read.attempts;
  read.status = {};
  pieces_.clear();
  requests_.clear();
  format_->AppendPieces(read.request.key.layer, read.request.key.expert, pieces_);
  std::byte* base = staging_.size() > 0 ? Staging(index).data() : read.request.record;
  for (const checkpoint::ReadPiece& piece : pieces_) {
    requests_.push_back({.file = piece.file,
                         .offset = piece.offset,
                         .destination = base + piece.destination,
                         .length = piece.length,
                         .required = piece.required,
                         .tag = index});
  }
  read.pieces_left = static_cast<uint32_t>(requests_.size());
  queue_->Submit(requests_);
}

void RecordReader::Wait(std::vector<RecordDone>& out) {
  const size_t before = out.size();
  while (queue_->outstanding() > 0) {
    completions_.clear();
    queue_->Wait(out.size() == before ? 1 : 0, completions_);
    if (completions_.empty()) return;
    for (io::ReadCompletion& completion : completions_) HandlePiece(completion, out);
  }
}

void RecordReader::HandlePiece(io::ReadCompletion& completion, std::vector<RecordDone>& out) {
  const uint32_t index = static_cast<uint32_t>(completion.tag);
  Read& read = reads_[index];
  if (!completion.status && read.status) read.status = std::move(completion.status);
  if (--read.pieces_left == 0) FinishRead(index, out);
}

void RecordReader::FinishRead(uint32_t index, std::vector<RecordDone>& out) {
  Read& read = reads_[index];
  if (read.status) {
    const ExpertKey key = read.request.key;
    read.status = format_->Finish(key.layer, key.expert, Staging(index),
                                  {read.request.record, format_->shape().record_bytes()});
    if (!read.status && read.attempts < kMaxAttempts) {
      ++retries_;
      Submit(index);
      return;
    }
  }
  out.push_back({.tag = read.request.tag, .status = std::move(read.status)});
  if (waiting_.empty()) {
    idle_.push_back(index);
    return;
  }
  read = Read{.request = waiting_.front(), .pieces_left = 0, .attempts = 0, .status = {}};
  waiting_.pop_front();
  Submit(index);
}

void RecordReader::Drain() {
  queue_->Drain();
  waiting_.clear();
  idle_.clear();
  for (uint32_t i = static_cast<uint32_t>(reads_.size()); i > 0; --i) idle_.push_back(i - 1);
}

std::span<std::byte> RecordReader::Staging(uint32_t index) {
  const size_t bytes = format_->staging_bytes();
  return staging_.span().subspan(index * bytes, bytes);
}

}  // namespace slotstream::experts
