#include "state/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace slotstream::state {
namespace {

using checkpoint::LayerKind;

checkpoint::ModelConfig SmallConfig() {
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

// What a pass does to the state of `tokens` more tokens, with values that name their place.
void Advance(const checkpoint::ModelConfig& config, uint64_t tokens, float salt,
             Sequence& sequence) {
  sequence.BeginPass();
  for (uint64_t t = sequence.length(); t < sequence.length() + tokens; ++t) {
    const float value = salt + static_cast<float>(t);
    for (AttentionState& layer : sequence.attention) {
      std::fill_n(layer.keys.Append(), layer.keys.width(), value);
      std::fill_n(layer.values.Append(), layer.values.width(), -value);
      if ((t + 1) % config.indexer_compress_ratio == 0) {
        std::fill_n(layer.index_keys.Append(), layer.index_keys.width(), 2 * value);
      }
      layer.open_block[0] = value;
    }
    for (LinearState& layer : sequence.linear) layer.recurrent[0] += value;
    for (NgramState& layer : sequence.ngram) layer.conv[0] += value;
    std::vector<uint32_t> context(config.ngram_size);
    sequence.ngram_context.Push(static_cast<uint32_t>(value), context);
  }
  sequence.EndPass(tokens, static_cast<int32_t>(sequence.length() + tokens));
}

void ExpectEqual(const Sequence& a, const Sequence& b) {
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
  }
  for (size_t i = 0; i < a.linear.size(); ++i) {
    EXPECT_EQ(a.linear[i].recurrent, b.linear[i].recurrent);
  }
  for (size_t i = 0; i < a.ngram.size(); ++i) EXPECT_EQ(a.ngram[i].conv, b.ngram[i].conv);
}

TEST(RowBlocks, RowsStayWhereTheyAre) {
  constexpr size_t kWidth = 3;
  RowBlocks rows(kWidth);
  EXPECT_EQ(rows.bytes(), 0u);
  std::vector<const float*> places;
  for (size_t i = 0; i < 3 * RowBlocks::kRowsPerBlock + 1; ++i) {
    ASSERT_EQ(rows.size(), i);
    float* row = rows.Append();
    for (size_t c = 0; c < kWidth; ++c) row[c] = static_cast<float>(i * kWidth + c);
    places.push_back(row);
    const size_t blocks = i / RowBlocks::kRowsPerBlock + 1;
    ASSERT_EQ(rows.bytes(), blocks * RowBlocks::kRowsPerBlock * kWidth * sizeof(float));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows.row(i), places[i]);
    for (size_t c = 0; c < kWidth; ++c) {
      ASSERT_EQ(rows.row(i)[c], static_cast<float>(i * kWidth + c));
    }
  }
}

TEST(RowBlocks, CopiesAtBlockBordersGoOn) {
  for (const size_t size : {size_t{0}, size_t{1}, RowBlocks::kRowsPerBlock - 1,
                            RowBlocks::kRowsPerBlock, RowBlocks::kRowsPerBlock + 1}) {
    RowBlocks rows(2);
    for (size_t i = 0; i < size; ++i) std::fill_n(rows.Append(), 2, static_cast<float>(i));
    RowBlocks copy(rows);
    EXPECT_EQ(copy.bytes(), rows.bytes());
    std::fill_n(copy.Append(), 2, -1.0f);
    std::fill_n(rows.Append(), 2, -2.0f);
    ASSERT_EQ(copy.size(), size + 1);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(copy.row(i)[1], static_cast<float>(i));
      ASSERT_NE(copy.row(i), rows.row(i));
    }
    EXPECT_EQ(copy.row(size)[1], -1.0f);
    EXPECT_EQ(rows.row(size)[1], -2.0f);
  }
}

TEST(Sequence, StartsEmpty) {
  const checkpoint::ModelConfig config = SmallConfig();
  const Sequence sequence(config);
  EXPECT_EQ(sequence.length(), 0u);
  EXPECT_EQ(sequence.attention.size(), 1u);
  EXPECT_EQ(sequence.linear.size(), 2u);
  EXPECT_EQ(sequence.ngram.size(), 1u);
  EXPECT_EQ(sequence.linear[0].conv.size(), 3 * (2 * 5 + 3 * 7));
  EXPECT_EQ(sequence.linear[0].recurrent.size(), 3 * 5 * 7);
  EXPECT_EQ(sequence.ngram[0].conv.size(), 3 * 3 * 2 * 16);
  EXPECT_EQ(std::ranges::count(sequence.linear[1].recurrent, 0.0f), 3 * 5 * 7);
  EXPECT_EQ(sequence.ngram_context, checkpoint::NgramContext(3, 9));
}

TEST(Sequence, CopiesGoTheirOwnWay) {
  const checkpoint::ModelConfig config = SmallConfig();
  for (const uint64_t cut : {0u, 3u, 256u, 700u}) {
    SCOPED_TRACE(cut);
    Sequence straight(config);
    Advance(config, cut, 0, straight);
    Sequence original(straight);
    Sequence copy(original);
    Advance(config, 300, 0, straight);
    Advance(config, 41, 5000, original);
    Advance(config, 300, 0, copy);
    ExpectEqual(copy, straight);
    EXPECT_EQ(original.length(), cut + 41);
    EXPECT_EQ(original.attention[0].keys.row(cut + 40)[0], 5000 + static_cast<float>(cut + 40));
  }
}

TEST(Sequence, AFailedPassLeavesItUnusable) {
  Sequence sequence(SmallConfig());
  EXPECT_TRUE(sequence.usable());
  sequence.BeginPass();
  EXPECT_FALSE(sequence.usable());
  EXPECT_FALSE(Sequence(sequence).usable());
  sequence.EndPass(2, 7);
  EXPECT_TRUE(sequence.usable());
  EXPECT_EQ(sequence.length(), 2u);
  EXPECT_EQ(sequence.next_position(), 7);
}

TEST(Sequence, BytesAreForetold) {
  checkpoint::ModelConfig wide = SmallConfig();
  wide.layers.assign(5, LayerKind::kFullAttention);
  wide.num_key_value_heads = 3;
  wide.indexer_compress_ratio = 8;
  wide.ple_layers = {0, 2};
  wide.hc_count = 3;
  checkpoint::ModelConfig linear = SmallConfig();
  linear.layers.assign(2, LayerKind::kLinearAttention);
  linear.ple_layers.clear();
  for (const checkpoint::ModelConfig& config : {SmallConfig(), wide, linear}) {
    for (const uint64_t tokens : {0u, 1u, 255u, 256u, 257u, 1023u, 1024u, 1028u, 2049u}) {
      SCOPED_TRACE(tokens);
      Sequence sequence(config);
      Advance(config, tokens, 0, sequence);
      EXPECT_EQ(sequence.bytes(), SequenceBytes(config, tokens));
      EXPECT_GE(SequenceBytes(config, tokens + 1), SequenceBytes(config, tokens));
    }
  }
}

}  // namespace
}  // namespace slotstream::state
