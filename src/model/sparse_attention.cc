#include "model/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace slotstream::model {
namespace {

using checkpoint::ModelConfig;

struct Buffers {
  Buffers(Arena& arena, const ModelConfig& config, size_t rows) {
    auto take = [&](size_t width) { return MutableRows{arena.Take(rows * width), width}; };
    query = take(size_t{config.num_attention_heads} * config.head_dim * 2);
    key = take(size_t{config.num_key_value_heads} * config.head_dim);
    value = take(key.stride);
    index = take(size_t{config.indexer_heads + 1} * config.indexer_head_dim);
    out = take(size_t{config.num_attention_heads} * config.head_dim);
  }
  MutableRows query;  // per head: query, gate
  MutableRows key, value;
  MutableRows index;  // index queries, then the raw index key
  MutableRows out;
};

size_t MaxSelected(const ModelConfig& config) {
  return size_t{config.indexer_budget} + config.indexer_compress_ratio;
}

// Pools the raw index keys of the pass into blocks; the block under way stays in the state.
void AppendIndexKeys(Compute& compute, const ModelConfig& config, const AttentionWeights& weights,
                     const Rotary& rotary, const MutableRows& index, size_t rows, size_t first,
                     const state::Position* positions, state::AttentionState& state) {
  const kernels::KernelTable& kernels = compute.kernels();
  const size_t dim = config.indexer_head_dim;
  const size_t ratio = config.indexer_compress_ratio;
  std::vector<float> cos(rotary.half()), sin(rotary.half());
  for (size_t r = 0; r < rows; ++r) {
    const size_t in_block = (first + r) % ratio;
    if (in_block == 0) state.open_block_position = positions[r];
    std::copy_n(index.row(r) + config.indexer_heads * dim, dim,
                state.open_block.begin() + static_cast<ptrdiff_t>(in_block * dim));
    if (in_block + 1 < ratio) continue;
    float* pooled = state.index_keys.Append();
    std::copy_n(state.open_block.data(), dim, pooled);
    for (size_t i = 1; i < ratio; ++i) kernels.add(state.open_block.data() + i * dim, dim, pooled);
    kernels.scale(1.0f / static_cast<float>(ratio), pooled, dim, pooled);
    kernels.rms_norm(pooled, weights.index_k_norm, dim, config.rms_norm_eps, pooled);
    rotary.At(state.open_block_position, cos.data(), sin.data());
    kernels.rope(pooled, cos.data(), sin.data(), rotary.half());
  }
}

// The block of index keys that is under way after `rows` of the pass, for a capture there. Before
// AppendIndexKeys, while `state` has the block from before the pass.
void CaptureOpenBlock(const ModelConfig& config, const MutableRows& index, size_t rows,
                      size_t first, const state::Position* positions,
                      const state::AttentionState& state, state::AttentionState& into) {
  const size_t dim = config.indexer_head_dim;
  into.open_block = state.open_block;
  into.open_block_position = state.open_block_position;
  const size_t in_block = (first + rows) % config.indexer_compress_ratio;
  for (size_t i = in_block - std::min(in_block, rows); i < in_block; ++i) {
    const size_t r = rows - in_block + i;
    if (i == 0) into.open_block_position = positions[r];
    std::copy_n(index.row(r) + config.indexer_heads * dim, dim,
                into.open_block.begin() + static_cast<ptrdiff_t>(i * dim));
  }
}

// The tokens that a row with `visible` tokens attends to.
void SelectTokens(const kernels::KernelTable& kernels, const ModelConfig& config,
                  const float* index_query, size_t visible, const state::RowBlocks& index_keys,
                  AttentionScratch::Worker& worker, std::vector<uint32_t>& selected) {
  const size_t ratio = config.indexer_compress_ratio;
  const size_t blocks = visible / ratio;
  if (blocks <= config.index_blocks()) {
    selected.resize(visible);
    std::iota(selected.begin(), selected.end(), 0u);
    return;
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(config.indexer_head_dim));
  worker.block_scores.resize(blocks);
  for (size_t b = 0; b < blocks; b += state::RowBlocks::kRowsPerBlock) {
    kernels.index_scores(index_query, config.indexer_heads, config.indexer_head_dim,
                         index_keys.row(b), std::min(state::RowBlocks::kRowsPerBlock, blocks - b),
                         scale, worker.block_scores.data() + b);
  }
  SelectBlocks(worker.block_scores.data(), blocks, config.index_blocks(), worker.block_order);
  selected.clear();
  for (uint32_t block : worker.block_order) {
    for (size_t i = 0; i < ratio; ++i) selected.push_back(static_cast<uint32_t>(block * ratio + i));
  }
  for (size_t t = blocks * ratio; t < visible; ++t) selected.push_back(static_cast<uint32_t>(t));
}

}  // namespace

AttentionScratch::AttentionScratch(const ModelConfig& config, size_t max_rows, int threads)
    : workers_(static_cast<size_t>(threads)), selected_(max_rows) {
  for (Worker& worker : workers_) {
    worker.keys.resize(MaxSelected(config));
    worker.values.resize(MaxSelected(config));
    worker.scores.resize(config.num_attention_heads / config.num_key_value_heads *
                         (MaxSelected(config) + 1));
  }
}

uint64_t AttentionScratch::bytes() const {
  uint64_t bytes = 0;
  for (const auto& selected : selected_) bytes += selected.capacity() * sizeof(uint32_t);
  for (const Worker& worker : workers_) {
    bytes += worker.block_scores.capacity() * 8 + worker.keys.capacity() * 16 +
             worker.scores.capacity() * sizeof(float);
  }
  return bytes;
}

void SelectBlocks(const float* scores, size_t count, size_t top, std::vector<uint32_t>& order) {
  order.resize(count);
  std::iota(order.begin(), order.end(), 0u);
  if (count > top) {
    std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(top), order.end(),
                     [scores](uint32_t a, uint32_t b) {
                       return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
                     });
    order.resize(top);
  }
  std::sort(order.begin(), order.end());
}

size_t SparseAttentionScratch(const ModelConfig& config, size_t rows) {
  Arena counter;
  Buffers(counter, config, rows);
  return counter.used();
}

void RunSparseAttention(Compute& compute, const ModelConfig& config,
                        const AttentionWeights& weights, const Rotary& rotary, ConstRows x,
                        size_t rows, const state::Position* positions,
                        const RowRotations& rotations, state::AttentionState& state,
                        Captures<state::AttentionState> captures, MutableRows y,
                        AttentionScratch& scratch, Arena arena) {
  const kernels::KernelTable& kernels = compute.kernels();
  const Buffers buffers(arena, config, rows);
  const size_t dim = config.head_dim;
  const size_t heads = config.num_attention_heads;
  const size_t kv_heads = config.num_key_value_heads;
  const float eps = config.rms_norm_eps;
  const size_t first = state.keys.size();

  compute.Run(x, config.hidden_size, rows,
              {{weights.q, buffers.query},
               {weights.k, buffers.key},
               {weights.v, buffers.value},
               {weights.index, buffers.index}});

  compute.ForRows(rows, [&](size_t r) {
    const float* cos = rotations.cos.row(r);
    const float* sin = rotations.sin.row(r);
    for (size_t h = 0; h < heads; ++h) {
      float* q = buffers.query.row(r) + h * 2 * dim;
      kernels.rms_norm(q, weights.q_norm, dim, eps, q);
      kernels.rope(q, cos, sin, rotary.half());
    }
    for (size_t h = 0; h < kv_heads; ++h) {
      float* k = buffers.key.row(r) + h * dim;
      kernels.rms_norm(k, weights.k_norm, dim, eps, k);
      kernels.rope(k, cos, sin, rotary.half());
    }
    for (size_t h = 0; h < config.indexer_heads; ++h) {
      float* q = buffers.index.row(r) + h * config.indexer_head_dim;
      kernels.rms_norm(q, weights.index_q_norm, config.indexer_head_dim, eps, q);
      kernels.rope(q, cos, sin, rotary.half());
    }
  });
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(buffers.key.row(r), kv_heads * dim, state.keys.Append());
    std::copy_n(buffers.value.row(r), kv_heads * dim, state.values.Append());
  }
  for (const Capture<state::AttentionState>& capture : captures) {
    CaptureOpenBlock(config, buffers.index, capture.rows, first, positions, state, *capture.into);
  }
  AppendIndexKeys(compute, config, weights, rotary, buffers.index, rows, first, positions, state);
  for (const Capture<state::AttentionState>& capture : captures) {
    const size_t length = first + capture.rows;
    capture.into->keys = state.keys.First(length);
    capture.into->values = state.values.First(length);
    capture.into->index_keys = state.index_keys.First(length / config.indexer_compress_ratio);
  }

  compute.ForRows(rows, [&](size_t r, int worker) {
    SelectTokens(kernels, config, buffers.index.row(r), first + r + 1, state.index_keys,
                 scratch.worker(worker), scratch.selected(r));
  });

  // Heads that share a key head are computed together, unless there are too few rows to go round.
  const size_t group = heads / kv_heads;
  const auto threads = static_cast<size_t>(compute.threads().threads());
  const size_t parts = rows * kv_heads >= threads ? 1 : std::min(threads, group);
  const size_t heads_per_part = (group + parts - 1) / parts;
  compute.threads().ParallelFor(rows * kv_heads * parts, [&](size_t task, int index) {
    const size_t r = task / (kv_heads * parts);
    const size_t kv_head = task / parts % kv_heads;
    const size_t head_begin = task % parts * heads_per_part;
    if (head_begin >= group) return;
    const size_t head_count = std::min(heads_per_part, group - head_begin);
    AttentionScratch::Worker& worker = scratch.worker(index);
    const std::vector<uint32_t>& selected = scratch.selected(r);
    for (size_t i = 0; i < selected.size(); ++i) {
      worker.keys[i] = state.keys.row(selected[i]) + kv_head * dim;
      worker.values[i] = state.values.row(selected[i]) + kv_head * dim;
    }
    const size_t head = kv_head * group + head_begin;
    kernels.attention({.query = buffers.query.row(r) + head * 2 * dim,
                       .query_stride = 2 * dim,
                       .heads = head_count,
                       .dim = dim,
                       .keys = worker.keys.data(),
                       .values = worker.values.data(),
                       .count = selected.size(),
                       .scale = 1.0f / std::sqrt(static_cast<float>(dim)),
                       .scores = worker.scores.data(),
                       .output = buffers.out.row(r) + head * dim,
                       .output_stride = dim});
    for (size_t h = head; h < head + head_count; ++h) {
      kernels.sigmoid_mul(buffers.out.row(r) + h * dim, buffers.query.row(r) + (h * 2 + 1) * dim,
                          dim);
    }
  });
  compute.Run(buffers.out, heads * dim, rows, {{weights.o, y}});
}

}  // namespace slotstream::model
