// What one sequence carries from token to token.
//
// Everything here is exact wherever it was taken: a copy continues with the same bits as the
// original (promise P1).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/ngram_hash.h"
#include "state/row_blocks.h"

namespace slotstream::state {

// Rotary position on the three axes: time, height, width. Text has all three equal.
using Position = std::array<int32_t, 3>;

// A sparse-attention layer: keys and values [kv_heads * head_dim] per token, one pooled index key
// [indexer_head_dim] per complete block, and the raw index keys of the block under way.
struct AttentionState {
  explicit AttentionState(const checkpoint::ModelConfig& config);

  RowBlocks keys;
  RowBlocks values;
  RowBlocks index_keys;
  std::vector<float> open_block;  // [ratio, indexer_head_dim], rows [0, tokens % ratio) are used
  Position open_block_position = {};  // of the open block's first token
};

// A gated-delta-net layer.
struct LinearState {
  explicit LinearState(const checkpoint::ModelConfig& config);

  std::vector<float> conv;       // [kernel - 1, conv_dim], oldest first; before the convolution
  std::vector<float> recurrent;  // [value_heads, key_dim, value_dim]
};

// An n-gram layer: the last (kernel - 1) * ngram_size normalised vectors, oldest first.
struct NgramState {
  explicit NgramState(const checkpoint::ModelConfig& config);

  std::vector<float> conv;  // [(kernel - 1) * ngram_size, hc_width]
};

// One sequence. Not thread-safe; one forward pass at a time writes it.
class Sequence {
 public:
  explicit Sequence(const checkpoint::ModelConfig& config);
  // Its layers are added one by one, in the model's order, before a pass computes them: see
  // ArrivingState.
  static Sequence WithoutLayers(const checkpoint::ModelConfig& config);
  // A copy is a snapshot: it and the original go on independently. It shares the rows and copies
  // the rest (at true geometry 117 MB, whatever the length); assignment reuses the target's memory.
  Sequence(const Sequence&) = default;
  Sequence& operator=(const Sequence&) = default;
  Sequence(Sequence&&) = default;
  Sequence& operator=(Sequence&&) = default;

  uint64_t length() const { return length_; }
  // Rotary position of the next token where the caller names none.
  int32_t next_position() const { return next_position_; }
  // Of everything, rows that copies share included.
  uint64_t bytes() const;
  // Calls fn(rows) for every list of rows.
  template <typename Fn>
  void ForEachRows(const Fn& fn) const {
    for (const AttentionState& layer : attention) {
      fn(layer.keys);
      fn(layer.values);
      fn(layer.index_keys);
    }
  }

  // False after a pass that failed or was cancelled midway: some layers have moved on and others
  // have not, so the sequence can only be dropped.
  bool usable() const { return usable_; }

  // For model/: layers in order; the i-th layer of its kind.
  std::vector<AttentionState> attention;
  std::vector<LinearState> linear;
  std::vector<NgramState> ngram;
  checkpoint::NgramContext ngram_context;

  // A pass brackets its changes with these two.
  void BeginPass() { usable_ = false; }
  void EndPass(uint64_t tokens, int32_t next_position) {
    length_ += tokens;
    next_position_ = next_position;
    usable_ = true;
  }

 private:
  explicit Sequence(const checkpoint::NgramContext& context) : ngram_context(context) {}

  uint64_t length_ = 0;
  int32_t next_position_ = 0;
  bool usable_ = true;
};

// Bytes of a sequence of `tokens` tokens, as Sequence::bytes() will report them. What does not grow
// with the length, and what no copy shares, is SequenceBytes(config, 0).
uint64_t SequenceBytes(const checkpoint::ModelConfig& config, uint64_t tokens);

}  // namespace slotstream::state
