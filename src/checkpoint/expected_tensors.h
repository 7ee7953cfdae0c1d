// Which tensors a config asks for: their names in the files, their shapes, and what becomes of them
// in memory. The one list that reading, checking and packing share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/resident.h"

namespace slotstream::checkpoint {

// What happens to a tensor's values on the way to memory.
enum class Conversion {
  kNone,         // widened where the storage is float32
  kNormPlusOne,  // a norm that multiplies by 1 + w: 1 is added if the file stores w
  kTranspose,    // a depthwise convolution, [channels, kernel] in the file, [kernel, channels] here
};

struct ExpectedTensor {
  std::string module;  // name in the file, less `suffix`
  std::string suffix;  // ".weight", ".bias" or none
  std::string name;    // ResidentTensor::name
  Storage storage = Storage::kBf16;
  uint32_t n = 0;
  uint32_t k = 0;
  Conversion conversion = Conversion::kNone;
  // Of the file's tensor where the storage is not quantized (those follow from n, k and group).
  std::vector<uint64_t> file_shape;

  bool quantized() const { return storage == Storage::kPanels || storage == Storage::kRows; }
};

// The resident tensors of a part in the order of its layout. Draft and vision: empty when the
// config has none.
std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& config, Part part);

// Lays tensors out one after another at multiples of 64 bytes. `groups` has one entry per tensor,
// used where it is quantized.
ResidentLayout LayOut(std::span<const ExpectedTensor> tensors, std::span<const uint32_t> groups);

// Module names of routed experts (layers as in ExpertFormat) and n-gram tables.
std::string ExpertModule(const ModelConfig& config, uint32_t layer, const char* projection);
std::string PleEmbeddingModule(uint32_t layer);
std::string NgramShardModule(uint32_t layer, uint32_t shard);

}  // namespace slotstream::checkpoint
