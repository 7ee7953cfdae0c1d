// States for tests: small, and their contents tell which keys they have read.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "state/arriving_state.h"
#include "state/prefix_tree.h"
#include "state/sequence.h"

namespace slotstream::state {

inline checkpoint::ModelConfig SmallConfig() {
  using checkpoint::LayerKind;
  checkpoint::ModelConfig config;
  config.hidden_size = 16;
  config.layers = {LayerKind::kLinearAttention, LayerKind::kFullAttention,
                   LayerKind::kLinearAttention};
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.indexer_heads = 2;
  config.indexer_head_dim = 4;
  config.indexer_budget = 64;
  config.indexer_compress_ratio = 4;
  config.linear_key_heads = 1;
  config.linear_value_heads = 3;
  config.linear_key_dim = 5;
  config.linear_value_dim = 7;
  config.linear_conv_kernel = 4;
  config.hc_count = 2;
  config.ple_layers = {1};
  config.ple_conv_kernel = 4;
  config.ngram_size = 3;
  config.eos_token_id = 9;
  return config;
}

// Reads the keys that `sequence` has not read yet: rows that hold the key, folds over all of them.
inline void ReadKeys(const checkpoint::ModelConfig& config, std::span<const PrefixKey> keys,
                     Sequence& sequence) {
  sequence.BeginPass();
  const size_t first = sequence.length();
  for (size_t t = first; t < keys.size(); ++t) {
    const auto value = static_cast<float>(keys[t]);
    for (AttentionState& layer : sequence.attention) {
      std::fill_n(layer.keys.Append(), layer.keys.width(), value);
      std::fill_n(layer.values.Append(), layer.values.width(), -value);
      if ((t + 1) % config.indexer_compress_ratio == 0) {
        std::fill_n(layer.index_keys.Append(), layer.index_keys.width(), 2 * value);
      }
      std::ranges::fill(layer.open_block, value);
      layer.open_block_position.fill(static_cast<int32_t>(t));
    }
    for (LinearState& layer : sequence.linear) {
      for (float& x : layer.recurrent) x = x * 0.5f + value;
      std::ranges::fill(layer.conv, value);
    }
    for (NgramState& layer : sequence.ngram) std::ranges::fill(layer.conv, value);
    std::vector<uint32_t> context(config.ngram_size);
    sequence.ngram_context.Push(static_cast<uint32_t>(keys[t]), context);
  }
  sequence.EndPass(keys.size() - first, static_cast<int32_t>(keys.size()));
}

inline std::shared_ptr<const Sequence> StateOf(const checkpoint::ModelConfig& config,
                                               std::span<const PrefixKey> keys) {
  auto state = std::make_shared<Sequence>(config);
  ReadKeys(config, keys, *state);
  return state;
}

// All of a state that arrives, taken as a pass takes it.
inline Result<Sequence> TakeAll(const checkpoint::ModelConfig& config, ArrivingState& arriving) {
  Sequence sequence = arriving.Begin();
  for (uint32_t layer = 0; layer < config.num_layers(); ++layer) {
    SS_RETURN_IF_ERROR(arriving.Take(layer, nullptr, sequence));
  }
  return sequence;
}

inline void ExpectEqual(const Sequence& a, const Sequence& b) {
  ASSERT_EQ(a.length(), b.length());
  EXPECT_EQ(a.next_position(), b.next_position());
  EXPECT_EQ(a.usable(), b.usable());
  EXPECT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(a.ngram_context, b.ngram_context);
  const auto expect_rows = [](const RowBlocks& x, const RowBlocks& y) {
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(std::equal(x.row(i), x.row(i) + x.width(), y.row(i))) << "row " << i;
    }
  };
  for (size_t i = 0; i < a.attention.size(); ++i) {
    expect_rows(a.attention[i].keys, b.attention[i].keys);
    expect_rows(a.attention[i].values, b.attention[i].values);
    expect_rows(a.attention[i].index_keys, b.attention[i].index_keys);
    EXPECT_EQ(a.attention[i].open_block, b.attention[i].open_block);
    EXPECT_EQ(a.attention[i].open_block_position, b.attention[i].open_block_position);
  }
  for (size_t i = 0; i < a.linear.size(); ++i) {
    EXPECT_EQ(a.linear[i].recurrent, b.linear[i].recurrent);
    EXPECT_EQ(a.linear[i].conv, b.linear[i].conv);
  }
  for (size_t i = 0; i < a.ngram.size(); ++i) EXPECT_EQ(a.ngram[i].conv, b.ngram[i].conv);
}

}  // namespace slotstream::state
