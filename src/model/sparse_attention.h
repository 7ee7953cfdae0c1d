// Sparse attention: an indexer scores blocks of past tokens, attention sees the best of them.
//
// Per token, x [H], n tokens visible (itself included), blocks of `ratio` tokens by sequence order:
//   q, gate = Wq x per head; k, v = Wk x, Wv x; q and k are RMS-normalised per head, then rotated
//   index queries and the raw index key = W_idx x; queries are normalised and rotated; a complete
//   block's key is the mean of its raw keys, normalised, rotated at its first token's position
//   score of a block = sum over index heads of relu(query . block key) / sqrt(dim)
//   visible to attention: the index_blocks() best complete blocks (ties: the lower one) and the
//   tokens after the last complete block
//   y = Wo (softmax attention * sigmoid(gate))
#pragma once

#include <vector>

#include "checkpoint/config.h"
#include "model/arena.h"
#include "model/capture.h"
#include "model/products.h"
#include "model/rotary.h"
#include "model/weights.h"
#include "state/sequence.h"

namespace slotstream::model {

// Per-thread memory of attention that grows with the context or holds pointers.
class AttentionScratch {
 public:
  AttentionScratch(const checkpoint::ModelConfig& config, size_t max_rows, int threads);

  struct Worker {
    std::vector<float> block_scores;         // [complete blocks]
    std::vector<uint32_t> block_order;       // [complete blocks]
    std::vector<const float*> keys, values;  // [selected tokens]
    std::vector<float> scores;               // [heads of a key head, selected tokens + 1]
  };
  Worker& worker(int i) { return workers_[static_cast<size_t>(i)]; }
  // Tokens that row r of the pass attends to, ascending.
  std::vector<uint32_t>& selected(size_t r) { return selected_[r]; }
  uint64_t bytes() const;

 private:
  std::vector<Worker> workers_;
  std::vector<std::vector<uint32_t>> selected_;  // [max_rows]
};

// Rotations of the pass's rows, [rows, rotary_dim / 2] each.
struct RowRotations {
  ConstRows cos, sin;
};

// y [rows, H] from x [rows, H], consecutive tokens at `positions` [rows]; appends to `state`.
void RunSparseAttention(Compute& compute, const checkpoint::ModelConfig& config,
                        const AttentionWeights& weights, const Rotary& rotary, ConstRows x,
                        size_t rows, const state::Position* positions,
                        const RowRotations& rotations, state::AttentionState& state,
                        Captures<state::AttentionState> captures, MutableRows y,
                        AttentionScratch& scratch, Arena arena);

size_t SparseAttentionScratch(const checkpoint::ModelConfig& config, size_t rows);

// The `top` best of scores[0, count), as ascending indices: higher score first, then lower index.
void SelectBlocks(const float* scores, size_t count, size_t top, std::vector<uint32_t>& order);

}  // namespace slotstream::model
