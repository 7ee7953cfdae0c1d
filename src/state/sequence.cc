#include "state/sequence.h"

#include <algorithm>

namespace slotstream::state {
namespace {

size_t KvWidth(const checkpoint::ModelConfig& config) {
  return size_t{config.num_key_value_heads} * config.head_dim;
}

size_t LinearConvFloats(const checkpoint::ModelConfig& config) {
  return size_t{config.linear_conv_kernel - 1} * config.conv_dim();
}

size_t RecurrentFloats(const checkpoint::ModelConfig& config) {
  return size_t{config.linear_key_dim} * config.value_dim();
}

size_t NgramConvFloats(const checkpoint::ModelConfig& config) {
  return size_t{config.ple_conv_kernel - 1} * config.ngram_size * config.hc_width();
}

uint64_t BlockBytes(uint64_t rows, uint64_t width) {
  constexpr uint64_t kRows = RowBlocks::kRowsPerBlock;
  return (rows + kRows - 1) / kRows * kRows * width * sizeof(float);
}

}  // namespace

AttentionState::AttentionState(const checkpoint::ModelConfig& config)
    : keys(KvWidth(config)),
      values(KvWidth(config)),
      index_keys(config.indexer_head_dim),
      open_block(size_t{config.indexer_compress_ratio} * config.indexer_head_dim) {}

LinearState::LinearState(const checkpoint::ModelConfig& config)
    : conv(LinearConvFloats(config)), recurrent(RecurrentFloats(config)) {}

NgramState::NgramState(const checkpoint::ModelConfig& config) : conv(NgramConvFloats(config)) {}

Sequence Sequence::WithoutLayers(const checkpoint::ModelConfig& config) {
  return Sequence(checkpoint::NgramContext(std::max(config.ngram_size, 1u), config.eos_token_id));
}

Sequence::Sequence(const checkpoint::ModelConfig& config) : Sequence(WithoutLayers(config)) {
  for (checkpoint::LayerKind kind : config.layers) {
    if (kind == checkpoint::LayerKind::kFullAttention) {
      attention.emplace_back(config);
    } else {
      linear.emplace_back(config);
    }
  }
  for (size_t i = 0; i < config.ple_layers.size(); ++i) ngram.emplace_back(config);
}

uint64_t Sequence::bytes() const {
  uint64_t total = 0;
  for (const AttentionState& layer : attention) {
    total += layer.keys.bytes() + layer.values.bytes() + layer.index_keys.bytes() +
             layer.open_block.size() * sizeof(float);
  }
  for (const LinearState& layer : linear) {
    total += (layer.conv.size() + layer.recurrent.size()) * sizeof(float);
  }
  for (const NgramState& layer : ngram) total += layer.conv.size() * sizeof(float);
  return total;
}

uint64_t SequenceBytes(const checkpoint::ModelConfig& config, uint64_t tokens) {
  uint64_t attention_layers = 0;
  for (checkpoint::LayerKind kind : config.layers) {
    attention_layers += kind == checkpoint::LayerKind::kFullAttention;
  }
  const uint64_t ratio = config.indexer_compress_ratio;
  const uint64_t attention = 2 * BlockBytes(tokens, KvWidth(config)) +
                             BlockBytes(tokens / ratio, config.indexer_head_dim) +
                             ratio * config.indexer_head_dim * sizeof(float);
  const uint64_t linear = (LinearConvFloats(config) + RecurrentFloats(config)) * sizeof(float);
  return attention_layers * attention + (config.num_layers() - attention_layers) * linear +
         config.ple_layers.size() * NgramConvFloats(config) * sizeof(float);
}

}  // namespace slotstream::state
