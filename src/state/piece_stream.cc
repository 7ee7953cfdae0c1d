#include "state/piece_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/crc32c.h"

namespace slotstream::state {
namespace {

// A block of 256 rows of keys at the published geometry. Two in flight keep a disk busy that has
// nothing else to do, and another's read waits for a mebibyte at most, less than for one of its
// own.
constexpr uint32_t kReadBytes = 512 << 10;
constexpr size_t kQuietReads = 2;
// A second read of a piece whose first failed its check.
constexpr int kMostAttempts = 2;

class Stream {
 public:
  Stream(std::span<const WantedPiece> pieces, io::ReadQueue& queue, PieceReceiver& receiver)
      : pieces_(pieces), queue_(queue), receiver_(receiver) {}

  Status Run(const std::atomic<bool>& stop) {
    for (;;) {
      if (stop.load(std::memory_order_relaxed)) {
        return Fail(ErrorCode::kCancelled, "reading a stored state was stopped");
      }
      SS_RETURN_IF_ERROR(Submit());
      if (under_way_.empty()) return {};
      completions_.clear();
      queue_.Wait(1, completions_);
      for (io::ReadCompletion& completion : completions_) {
        SS_RETURN_IF_ERROR(std::move(completion.status));
        SS_RETURN_IF_ERROR(Land(completion.tag >> 32, static_cast<uint32_t>(completion.tag)));
      }
    }
  }

 private:
  // A piece whose reads wait, are in flight or have landed.
  struct UnderWay {
    std::vector<io::ReadRequest> reads;
    std::vector<bool> landed;
    size_t checked = 0;  // reads whose bytes are in `crc`
    uint32_t crc = 0;
    int attempts = 1;
    bool right = false;
  };

  Status Submit() {
    const size_t most = receiver_.Urgent() ? kPieceReads : kQuietReads;
    while (queue_.outstanding() < most) {
      if (!waiting_.empty()) {
        queue_.Submit(std::span(&waiting_.front(), 1));
        waiting_.pop_front();
      } else if (opened_ < pieces_.size()) {
        SS_RETURN_IF_ERROR(Open(opened_++));
      } else {
        break;
      }
    }
    return {};
  }

  Status Open(size_t i) {
    const WantedPiece& wanted = pieces_[i];
    UnderWay& piece = under_way_.emplace_back();
    uint64_t offset = wanted.piece.offset;
    for (std::span<std::byte> left : receiver_.Place(i)) {
      while (!left.empty()) {
        const auto bytes = static_cast<uint32_t>(std::min<size_t>(left.size(), kReadBytes));
        piece.reads.push_back({.file = wanted.file,
                               .offset = offset,
                               .destination = left.data(),
                               .length = bytes,
                               .required = bytes,
                               .tag = (uint64_t{i} << 32) | piece.reads.size()});
        left = left.subspan(bytes);
        offset += bytes;
      }
    }
    if (offset != wanted.piece.offset + wanted.piece.bytes) {
      return Damaged(*wanted.file, "of another geometry");
    }
    piece.landed.resize(piece.reads.size());
    waiting_.insert(waiting_.end(), piece.reads.begin(), piece.reads.end());
    return piece.reads.empty() ? Check(i) : Status();
  }

  Status Land(size_t i, size_t read) {
    UnderWay& piece = At(i);
    piece.landed[read] = true;
    // At once, while they are in the processor's caches.
    for (; piece.checked < piece.reads.size() && piece.landed[piece.checked]; ++piece.checked) {
      const io::ReadRequest& done = piece.reads[piece.checked];
      piece.crc = Crc32c(std::span<const std::byte>(done.destination, done.length), piece.crc);
    }
    return piece.checked == piece.reads.size() ? Check(i) : Status();
  }

  // All of the piece has landed.
  Status Check(size_t i) {
    UnderWay& piece = At(i);
    const WantedPiece& wanted = pieces_[i];
    if (piece.crc != wanted.piece.crc) {
      if (piece.reads.empty() || piece.attempts++ == kMostAttempts) {
        return Damaged(*wanted.file, fmt::format("checksum error in the {} bytes at {}",
                                                 wanted.piece.bytes, wanted.piece.offset));
      }
      piece.landed.assign(piece.reads.size(), false);
      piece.checked = 0;
      piece.crc = 0;
      waiting_.insert(waiting_.begin(), piece.reads.begin(), piece.reads.end());
      return {};
    }
    piece.right = true;
    while (!under_way_.empty() && under_way_.front().right) {
      under_way_.pop_front();
      ++arrived_;
    }
    receiver_.Arrived(arrived_);
    return {};
  }

  UnderWay& At(size_t i) { return under_way_[i - arrived_]; }

  const std::span<const WantedPiece> pieces_;
  io::ReadQueue& queue_;
  PieceReceiver& receiver_;
  size_t opened_ = 0;
  size_t arrived_ = 0;              // all before the first under way
  std::deque<UnderWay> under_way_;  // in order
  std::deque<io::ReadRequest> waiting_;
  std::vector<io::ReadCompletion> completions_;
};

}  // namespace

Status ReadPieces(std::span<const WantedPiece> pieces, io::ReadQueue& queue,
                  PieceReceiver& receiver, const std::atomic<bool>& stop) {
  Status status = Stream(pieces, queue, receiver).Run(stop);
  queue.Drain();
  return status;
}

}  // namespace slotstream::state
