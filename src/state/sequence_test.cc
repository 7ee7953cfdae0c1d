#include "state/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "state/test_states.h"

namespace slotstream::state {
namespace {

using checkpoint::LayerKind;

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
    EXPECT_EQ(original.attention[0].keys.row(cut + 40)[0], 5000 + static_cast<float>(cut + 40));
    Advance(config, 300, 0, copy);
    ExpectEqual(copy, straight);
    EXPECT_EQ(original.length(), cut + 41);
    original = copy;  // memory is reused, what it held is not
    ExpectEqual(original, straight);
    Advance(config, 9, 0, original);
    Advance(config, 9, 0, straight);
    ExpectEqual(original, straight);
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
