// Checkpoints for tests: random weights in a geometry of one's choice, written as safetensors.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bf16.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/ngram_hash.h"
#include "checkpoint/safetensors.h"
#include "io/read_queue.h"

namespace slotstream::checkpoint {

// A geometry that shares no number with the real one: hidden 192, 12 layers, 48 experts, two
// streams, 4-grams, two n-gram tables, two draft layers, groups of 32 in experts and tables.
inline nlohmann::json OddConfig() {
  nlohmann::json text = {{"vocab_size", 500},
                         {"hidden_size", 192},
                         {"num_hidden_layers", 12},
                         {"full_attention_interval", 3},
                         {"num_attention_heads", 6},
                         {"num_key_value_heads", 2},
                         {"head_dim", 32},
                         {"partial_rotary_factor", 0.25},
                         {"rope_parameters", {{"rope_theta", 5000}, {"mrope_section", {2, 1, 1}}}},
                         {"indexer_n_heads", 3},
                         {"indexer_head_dim", 16},
                         {"indexer_budget", 24},
                         {"indexer_compress_ratio", 3},
                         {"linear_num_key_heads", 2},
                         {"linear_num_value_heads", 6},
                         {"linear_key_head_dim", 24},
                         {"linear_value_head_dim", 32},
                         {"linear_conv_kernel_dim", 3},
                         {"num_experts", 48},
                         {"num_experts_per_tok", 10},
                         {"moe_intermediate_size", 96},
                         {"shared_expert_intermediate_size", 64},
                         {"hc_count", 2},
                         {"hc_lowrank", 64},
                         {"ple_layer_ids", {5, 2}},
                         {"ple_embed_dim", 384},
                         {"ngram_size", 4},
                         {"heads_per_ngram", 4},
                         {"ngram_vocab_size_base", 101},
                         {"make_ngram_vocab_size_divisible_by", 6},
                         {"split_ngram_parts", 3},
                         {"eos_token_id", 7},
                         {"mtp_num_hidden_layers", 2}};
  return {{"model_type", "qwen4_exp"}, {"text_config", text}};
}

class SyntheticCheckpoint {
 public:
  struct Tensor {
    Dtype dtype = Dtype::kBf16;
    std::vector<uint64_t> shape;
    std::vector<std::byte> data;
  };

  explicit SyntheticCheckpoint(nlohmann::json config, uint32_t seed = 1)
      : json_(std::move(config)), rng_(seed) {
    auto parsed = ParseConfig(json_.dump(), "config.json");
    EXPECT_TRUE(parsed) << parsed.error().message;
    config_ = *parsed;
    for (Part part : {Part::kTrunk, Part::kDraft, Part::kVision}) {
      for (const ExpectedTensor& tensor : ExpectedTensors(config_, part)) AddResident(tensor);
    }
    for (uint32_t l = 0; l < config_.num_layers() + config_.mtp_layers; ++l) AddExperts(l);
    for (size_t i = 0; i < config_.ple_layers.size(); ++i) AddNgrams(i);
  }

  const ModelConfig& config() const { return config_; }
  nlohmann::json& json() { return json_; }
  std::map<std::string, Tensor>& tensors() { return tensors_; }

  // Spreads the tensors over `shards` files so that pieces of a matrix lie in different ones; mtp.*
  // goes to mtp.safetensors.
  void Write(const std::string& directory, size_t shards = 3) const {
    std::vector<std::vector<TensorData>> files(shards + 1);
    nlohmann::json weight_map = nlohmann::json::object();
    size_t i = 0;
    for (const auto& [name, tensor] : tensors_) {
      const bool draft = name.starts_with("mtp.");
      const size_t shard = i++ % 7 == 0 ? (i / 7) % shards : i * shards / (tensors_.size() + 1);
      if (!draft) weight_map[name] = ShardName(shard);
      files[draft ? shards : shard].push_back({name, tensor.dtype, tensor.shape, tensor.data});
    }
    for (size_t f = 0; f < files.size(); ++f) {
      const std::string name = f == shards ? "mtp.safetensors" : ShardName(f);
      if (files[f].empty()) continue;
      Status status = WriteSafetensors(directory + "/" + name, files[f]);
      ASSERT_TRUE(status) << status.error().message;
    }
    WriteText(directory + "/model.safetensors.index.json",
              nlohmann::json{{"weight_map", weight_map}}.dump());
    WriteText(directory + "/config.json", json_.dump());
    WriteText(directory + "/tokenizer.json", "{\"synthetic\": true}");
  }

  static std::string ShardName(size_t i) { return "model-" + std::to_string(i) + ".safetensors"; }

  static void WriteText(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  static size_t Count(const std::vector<uint64_t>& shape) {
    size_t count = 1;
    for (uint64_t n : shape) count *= n;
    return count;
  }

  // Bf16 values around `mean`.
  void AddValues(const std::string& name, std::vector<uint64_t> shape, float mean) {
    std::normal_distribution<float> normal(mean, 0.1f);
    Tensor tensor{Dtype::kBf16, shape, std::vector<std::byte>(Count(shape) * 2)};
    for (size_t at = 0; at < tensor.data.size(); at += 2) {
      const uint16_t bits = FloatToBf16(normal(rng_));
      std::memcpy(tensor.data.data() + at, &bits, 2);
    }
    tensors_[name] = std::move(tensor);
  }

  void AddMatrix(const std::string& module, std::vector<uint64_t> lead, uint64_t n, uint64_t k,
                 uint64_t group) {
    lead.push_back(n);
    lead.push_back(k / 8);
    Tensor weight{Dtype::kU32, lead, std::vector<std::byte>(Count(lead) * 4)};
    for (std::byte& b : weight.data) b = static_cast<std::byte>(rng_());
    tensors_[module + ".weight"] = std::move(weight);
    lead.back() = k / group;
    AddValues(module + ".scales", lead, 0.1f);
    AddValues(module + ".biases", lead, -0.5f);
  }

  void AddResident(const ExpectedTensor& tensor) {
    if (tensor.quantized()) return AddMatrix(tensor.module, {}, tensor.n, tensor.k, 64);
    const bool norm = tensor.conversion == Conversion::kNormPlusOne;
    AddValues(tensor.module + tensor.suffix, tensor.file_shape, norm ? 1.2f : 0.0f);
  }

  void AddExperts(uint32_t layer) {
    const uint64_t hidden = config_.hidden_size, inner = config_.expert_size;
    AddMatrix(ExpertModule(config_, layer, "gate"), {config_.num_experts}, inner, hidden, 32);
    AddMatrix(ExpertModule(config_, layer, "up"), {config_.num_experts}, inner, hidden, 64);
    AddMatrix(ExpertModule(config_, layer, "down"), {config_.num_experts}, hidden, inner, 32);
  }

  void AddInts(const std::string& name, const std::vector<uint64_t>& values) {
    Tensor tensor{Dtype::kI64, {values.size()}, std::vector<std::byte>(values.size() * 8)};
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    tensors_[name] = std::move(tensor);
  }

  void AddNgrams(size_t i) {
    const NgramHash hash = MakeNgramHash(config_, i);
    const uint32_t layer = config_.ple_layers[i];
    for (uint32_t shard = 0; shard < config_.split_ngram_parts; ++shard) {
      AddMatrix(NgramShardModule(layer, shard), {}, hash.rows / config_.split_ngram_parts,
                config_.ngram_row_width(), 32);
    }
    AddInts(PleEmbeddingModule(layer) + ".layer_multipliers", hash.multipliers);
    AddInts(PleEmbeddingModule(layer) + ".ngram_heads_vocab_sizes", hash.sizes);
    AddInts(PleEmbeddingModule(layer) + ".ngram_heads_offsets", hash.offsets);
  }

  nlohmann::json json_;
  std::mt19937 rng_;
  ModelConfig config_;
  std::map<std::string, Tensor> tensors_;
};

// A queue on threads, for tests that read.
inline std::unique_ptr<io::ReadQueue> TestQueue() {
  auto backend = io::MakeBackend(io::BackendKind::kThreads, 16, nullptr);
  EXPECT_TRUE(backend);
  return std::make_unique<io::ReadQueue>(std::move(*backend), Clock::Steady());
}

// Runs the reads of one record or row and finishes it.
template <typename Pieces, typename Finish>
Status ReadRecord(io::ReadQueue& queue, size_t staging_bytes, std::span<std::byte> record,
                  const Pieces& pieces, const Finish& finish) {
  SS_ASSIGN_OR_RETURN(AlignedBuffer staging,
                      AlignedBuffer::Allocate(std::max<size_t>(staging_bytes, 1), "staging"));
  std::byte* base = staging_bytes > 0 ? staging.data() : record.data();
  std::vector<ReadPiece> list;
  pieces(list);
  std::vector<io::ReadRequest> requests;
  for (const ReadPiece& piece : list) {
    requests.push_back(
        {piece.file, piece.offset, base + piece.destination, piece.length, piece.required, 0});
  }
  queue.Submit(requests);
  std::vector<io::ReadCompletion> done;
  while (queue.outstanding() > 0) queue.Wait(1, done);
  for (io::ReadCompletion& completion : done) SS_RETURN_IF_ERROR(std::move(completion.status));
  return finish(std::span<const std::byte>(staging.data(), staging_bytes));
}

inline Result<AlignedBuffer> ReadExpert(const ExpertFormat& format, uint32_t layer, uint32_t expert,
                                        io::ReadQueue& queue) {
  SS_ASSIGN_OR_RETURN(AlignedBuffer record,
                      AlignedBuffer::Allocate(format.shape().record_bytes(), "record"));
  SS_RETURN_IF_ERROR(ReadRecord(
      queue, format.staging_bytes(), record.span(),
      [&](std::vector<ReadPiece>& out) { format.AppendPieces(layer, expert, out); },
      [&](std::span<const std::byte> staging) {
        return format.Finish(layer, expert, staging, record.span());
      }));
  return record;
}

// Rows `first` to `first` + `count` - 1 one after another, all in flight at once.
inline Result<std::vector<std::byte>> ReadNgramRows(const NgramFormat& format, uint64_t first,
                                                    uint64_t count, io::ReadQueue& queue) {
  SS_ASSIGN_OR_RETURN(AlignedBuffer staging,
                      AlignedBuffer::Allocate(count * format.staging_bytes(), "staging"));
  std::vector<io::ReadRequest> requests;
  std::vector<ReadPiece> pieces;
  for (uint64_t i = 0; i < count; ++i) {
    pieces.clear();
    format.AppendPieces(first + i, pieces);
    for (const ReadPiece& piece : pieces) {
      std::byte* at = staging.data() + i * format.staging_bytes() + piece.destination;
      requests.push_back({piece.file, piece.offset, at, piece.length, piece.required, 0});
    }
  }
  queue.Submit(requests);
  std::vector<io::ReadCompletion> done;
  while (queue.outstanding() > 0) queue.Wait(queue.outstanding(), done);
  for (io::ReadCompletion& completion : done) SS_RETURN_IF_ERROR(std::move(completion.status));
  std::vector<std::byte> out(count * format.row_bytes());
  for (uint64_t i = 0; i < count; ++i) {
    SS_RETURN_IF_ERROR(format.Finish(
        first + i, staging.span().subspan(i * format.staging_bytes(), format.staging_bytes()),
        std::span(out).subspan(i * format.row_bytes(), format.row_bytes())));
  }
  return out;
}

inline Result<std::vector<std::byte>> ReadNgramRow(const NgramFormat& format, uint64_t row,
                                                   io::ReadQueue& queue) {
  return ReadNgramRows(format, row, 1, queue);
}

// Panels from the checkpoint's pieces, one value at a time by the format's definition.
inline std::vector<std::byte> NaivePanels(const PanelShape& shape, const std::byte* weight,
                                          const std::byte* scales, const std::byte* biases) {
  std::vector<std::byte> out(shape.bytes());
  const size_t steps = shape.group / 8;
  for (uint32_t row = 0; row < shape.n; ++row) {
    const uint32_t p = row / kPanelOutputs;
    const size_t lane = row % kPanelOutputs;
    const size_t lanes = shape.lanes(p);
    for (size_t g = 0; g < shape.groups(); ++g) {
      std::byte* block = out.data() + shape.panel_offset(p) + g * lanes * shape.lane_group_bytes();
      for (size_t step = 0; step < steps; ++step) {
        std::memcpy(block + (step * lanes + lane) * 4,
                    weight + (row * size_t{shape.k} / 8 + g * steps + step) * 4, 4);
      }
      std::byte* tail = block + steps * lanes * 4;
      std::memcpy(tail + lane * 2, scales + (row * size_t{shape.groups()} + g) * 2, 2);
      std::memcpy(tail + (lanes + lane) * 2, biases + (row * size_t{shape.groups()} + g) * 2, 2);
    }
  }
  return out;
}

}  // namespace slotstream::checkpoint
