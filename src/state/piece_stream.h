// Pieces of files, read in order and checked, a few reads at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "io/file.h"
#include "io/read_queue.h"
#include "state/piece_file.h"

namespace slotstream::state {

struct WantedPiece {
  const io::File* file = nullptr;
  Piece piece;
};

// Who wants pieces; called on the reading thread.
class PieceReceiver {
 public:
  virtual ~PieceReceiver() = default;
  // Where piece `i` goes: spans that together have its size. Asked for in order, just before its
  // reads start; they must live until ReadPieces has returned.
  virtual std::vector<std::span<std::byte>> Place(size_t i) = 0;
  // The pieces [0, pieces) are there, and their checksums are right.
  virtual void Arrived(size_t pieces) = 0;
  // Somebody waits for what comes next.
  virtual bool Urgent() const = 0;
};

// The most reads that ReadPieces has in flight.
inline constexpr size_t kPieceReads = 16;

// Reads `pieces` on the calling thread. While nobody waits for them only a little is in flight, so
// that other readers of the disk, whom somebody does wait for, are hardly slowed down. A piece with
// a wrong checksum is read once more: a bad transfer goes away, a damaged file stays so. Errors:
// kCorrupt with file and offset, the queue's, kCancelled once `stop` is true. `queue` is empty, and
// drained afterwards.
Status ReadPieces(std::span<const WantedPiece> pieces, io::ReadQueue& queue,
                  PieceReceiver& receiver, const std::atomic<bool>& stop);

}  // namespace slotstream::state
