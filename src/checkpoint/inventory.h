// What an original checkpoint holds, matched against what its config asks for, before anything
// large is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/resident.h"
#include "checkpoint/tensor_index.h"

namespace slotstream::checkpoint {

struct TensorSource {
  uint32_t file = 0;  // in TensorIndex::files
  Dtype dtype = Dtype::kBf16;
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;
};

// A quantized matrix: u32 [n, k/8], bf16 [n, k/group] twice. Each piece may be in a file of its
// own.
struct MatrixSource {
  TensorSource weight, scales, biases;
};

struct ResidentSource {
  MatrixSource pieces;  // only `weight` where the storage is not quantized
  Conversion conversion = Conversion::kNone;
};

struct PartInventory {
  ResidentLayout layout;
  std::vector<ResidentSource> sources;  // one per tensor of the layout
};

// Routed experts of one layer: tensors [experts, n, k], expert e at e times their bytes / experts.
struct ExpertLayerSource {
  MatrixSource gate, up, down;
};

// An n-gram table, cut into shards of rows_per_shard rows.
struct NgramTableSource {
  uint64_t rows = 0;
  uint64_t rows_per_shard = 0;
  uint32_t width = 0;
  uint32_t group = 0;
  std::vector<MatrixSource> shards;
  // I64 copies of the hash constants: multipliers, sizes, offsets.
  TensorSource multipliers, sizes, offsets;
};

// A bounded list of lines, in the order found.
class Report {
 public:
  static constexpr size_t kMaxLines = 40;

  void Add(std::string line) {
    if (++count_ <= kMaxLines) lines_.push_back(std::move(line));
  }
  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  // At most kMaxLines lines, then one that counts the rest.
  std::vector<std::string> Lines() const;

 private:
  std::vector<std::string> lines_;
  uint64_t count_ = 0;
};

struct Inventory {
  PartInventory trunk;
  std::optional<PartInventory> draft;
  std::optional<PartInventory> vision;
  ExpertShape expert;
  std::vector<ExpertLayerSource> experts;  // trunk layers, then draft layers
  std::vector<NgramTableSource> ngrams;    // in the order of config.ple_layers
  // Norms of the files' convention: true where a file set stores w instead of 1 + w.
  bool add_one_model = false;
  bool add_one_draft = false;

  Report problems;  // missing, wrong dtype, wrong shape, contradictions: the checkpoint is unusable
  Report notes;     // tensors nobody asked for, optional parts that are absent
};

// Matches names, dtypes and shapes. Reads no data. Where there are problems the other fields hold
// what could be matched. The group of each matrix follows from its shapes and must agree with the
// config's quantization block where that names one.
Inventory TakeInventory(const ModelConfig& config, const TensorIndex& index);

// kUnsupported, with advice, when the names are those of a checkpoint in the layout of its
// publisher (model.language_model.*), not yet quantized to 4 bits.
Status CheckNaming(const TensorIndex& index, const std::string& directory);

// Reads the small tensors that decide something: compares the I64 hash constants with MakeNgramHash
// (they must never have passed through a float), and decides the norm convention of the model files
// and of mtp.safetensors, each from the mean over all its hc_norm and q_norm weights (about 0.2 for
// w, 1.2 for 1 + w; below 0.6 means w). Adds to inventory.problems. Errors: those of io::File.
Status CheckContents(const ModelConfig& config, const TensorIndex& index, Inventory& inventory);

}  // namespace slotstream::checkpoint
