// A stored state on its way from disk, and the pass that goes on from it while it comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/config.h"
#include "io/backend.h"
#include "io/file.h"
#include "state/layer_gate.h"
#include "state/piece_stream.h"
#include "state/prefix_file.h"
#include "state/sequence.h"

namespace slotstream::state {

// Reads on a thread of its own, in the order in which layers want their parts. It owns the files,
// the reads and the memory that they go to, so whoever gives it up just destroys it. Used by one
// thread, apart from its own.
class ArrivingState {
 public:
  struct Files {
    std::unique_ptr<io::File> head;
    std::vector<std::unique_ptr<io::File>> rows;  // of the head's segments
    std::vector<std::vector<Piece>> row_pieces;   // their tables
  };
  // Starts to read. `keep`: what is taken stays here too, for Whole. `clock` must outlive it.
  // Errors: kCorrupt (a state of another geometry), kResourceLimit (no thread).
  static Result<std::unique_ptr<ArrivingState>> Start(const checkpoint::ModelConfig& config,
                                                      PrefixHead about, Files files,
                                                      std::unique_ptr<io::ReadBackend> backend,
                                                      bool keep, const Clock& clock);
  // Stops reading: what is in flight is waited for, the rest never starts.
  ~ArrivingState();

  // Tokens that it has read.
  size_t length() const { return about_.keys.size(); }
  std::span<const PrefixKey> keys() const { return about_.keys; }
  // All of the state but its layers, which must then be taken in their order, each before it is
  // computed.
  Sequence Begin() const;
  // Returns when the layer's part is there and has been added to `sequence`. Errors: kCancelled,
  // those of ReadPieces, kResourceLimit (memory); whatever it is, the whole state is of no use.
  Status Take(uint32_t layer, const std::atomic<bool>* cancel, Sequence& sequence);

  // Every layer was taken.
  bool complete() const { return taken_ == layers_.size(); }
  // Why it will never be complete, if so.
  std::optional<Error> failure() const { return gate_.broken(); }
  // The state as it was stored, once: of a complete one that keeps what is taken.
  std::shared_ptr<const Sequence> Whole();

  // From the start until everything was there, of a complete one; and how much of it was waited
  // for.
  uint64_t nanos() const;
  uint64_t waited_nanos() const { return gate_.waited_nanos(); }
  uint64_t bytes_read() const;

 private:
  // A layer of the model. It exists from when its first read starts.
  struct Layer {
    std::optional<NgramState> ngram;
    std::optional<LinearState> linear;
    std::optional<AttentionState> attention;
  };
  // What a piece is: of a head, or of the `segment`-th segment.
  struct Part {
    uint32_t layer = 0;
    PieceKind kind = PieceKind::kFacts;
    size_t segment = 0;
  };
  class Receiver;

  ArrivingState(const checkpoint::ModelConfig& config, PrefixHead about, Files files, bool keep,
                const Clock& clock);
  Status Plan();
  Status Add(const Part& part, const io::File& file, const Piece& piece, uint64_t bytes);
  void Read(std::unique_ptr<io::ReadBackend> backend);

  const checkpoint::ModelConfig& config_;
  const PrefixHead about_;
  const Files files_;
  const bool keep_;
  const Clock& clock_;
  const uint64_t start_nanos_;
  std::vector<Part> parts_;          // in the order of reading
  std::vector<WantedPiece> pieces_;  // theirs
  std::vector<size_t> layer_ends_;   // pieces of the layers up to this one
  std::vector<Layer> layers_;  // of those that the gate has opened: the taker's; else the thread's
  LayerGate gate_;
  uint32_t taken_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> nanos_ = 0;
  std::thread thread_;
};

}  // namespace slotstream::state
