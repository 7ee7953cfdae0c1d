// The part of the inventory that looks into tensors: hash constants and norm convention.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "base/bf16.h"
#include "checkpoint/inventory.h"
#include "checkpoint/ngram_hash.h"

namespace slotstream::checkpoint {
namespace {

// Means lie near 0.2 (w) and 1.2 (1 + w); single tensors stray, their average does not.
constexpr double kNormThreshold = 0.6;

Result<std::vector<std::byte>> ReadTensor(const TensorIndex& index, const TensorSource& source) {
  std::vector<std::byte> bytes(source.bytes);
  SS_RETURN_IF_ERROR(index.files[source.file]->file().ReadAt(source.offset, bytes));
  return bytes;
}

Status CompareConstants(const TensorIndex& index, const TensorSource& source,
                        const std::vector<uint64_t>& computed, const std::string& name,
                        Report& problems) {
  SS_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadTensor(index, source));
  for (size_t i = 0; i < computed.size(); ++i) {
    uint64_t stored = 0;
    std::memcpy(&stored, bytes.data() + i * sizeof(stored), sizeof(stored));
    if (stored == computed[i]) continue;
    problems.Add(
        fmt::format("{}[{}] is {}, but the config gives {}: a conversion damaged it, or "
                    "the config belongs to another checkpoint",
                    name, i, stored, computed[i]));
    return {};
  }
  return {};
}

struct Mean {
  double sum = 0;
  uint64_t count = 0;
};

Status AddValues(const TensorIndex& index, const TensorSource& source, Mean& mean) {
  SS_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadTensor(index, source));
  const size_t width = DtypeBytes(source.dtype);
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    if (source.dtype == Dtype::kF32) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      mean.sum += value;
    } else {
      uint16_t value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      mean.sum += Bf16ToFloat(value);
    }
    ++mean.count;
  }
  return {};
}

}  // namespace

Status CheckContents(const ModelConfig& config, const TensorIndex& index, Inventory& inventory) {
  if (!inventory.problems.empty()) return {};  // shapes are not to be trusted
  for (size_t i = 0; i < inventory.ngrams.size(); ++i) {
    const NgramTableSource& table = inventory.ngrams[i];
    const NgramHash hash = MakeNgramHash(config, i);
    const std::string module = PleEmbeddingModule(config.ple_layers[i]);
    SS_RETURN_IF_ERROR(CompareConstants(index, table.multipliers, hash.multipliers,
                                        module + ".layer_multipliers", inventory.problems));
    SS_RETURN_IF_ERROR(CompareConstants(index, table.sizes, hash.sizes,
                                        module + ".ngram_heads_vocab_sizes", inventory.problems));
    SS_RETURN_IF_ERROR(CompareConstants(index, table.offsets, hash.offsets,
                                        module + ".ngram_heads_offsets", inventory.problems));
  }

  Mean model, draft;
  for (const PartInventory* part :
       {&inventory.trunk, inventory.draft ? &*inventory.draft : nullptr}) {
    if (part == nullptr) continue;
    for (size_t i = 0; i < part->sources.size(); ++i) {
      const std::string& name = part->layout.tensors[i].name;
      if (!name.ends_with("hc_norm") && !name.ends_with("self_attn.q_norm")) continue;
      const TensorSource& source = part->sources[i].pieces.weight;
      Mean& mean = source.file == index.draft_file ? draft : model;
      SS_RETURN_IF_ERROR(AddValues(index, source, mean));
    }
  }
  for (auto [mean, add_one, what] :
       {std::tuple(model, &inventory.add_one_model, "the model files"),
        std::tuple(draft, &inventory.add_one_draft, "mtp.safetensors")}) {
    if (mean.count == 0) continue;
    const double average = mean.sum / static_cast<double>(mean.count);
    if (!std::isfinite(average)) {
      inventory.problems.Add(fmt::format("the norm weights of {} are not finite numbers", what));
    }
    *add_one = average < kNormThreshold;
  }
  return {};
}

}  // namespace slotstream::checkpoint
