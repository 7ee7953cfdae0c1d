// All tensors of an original checkpoint directory, whichever file holds them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace slotstream::checkpoint {

struct TensorRef {
  uint32_t file = 0;  // in TensorIndex::files
  TensorInfo info;
};

struct TensorIndex {
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, TensorRef, std::less<>> tensors;
  std::optional<uint32_t> draft_file;  // mtp.safetensors, in `files`
  // Whatever was wrong: missing shards, unreadable headers, contradictions. Tensors of the files
  // that could be read are there all the same, so that a report can say what is known.
  std::vector<Error> problems;

  bool HasPrefix(std::string_view prefix) const;
  // Keeps the first forty: a wrong index may name a hundred thousand tensors.
  void AddProblem(Error error);
};

// Opens the shards that model.safetensors.index.json names, or the single model.safetensors, and
// mtp.safetensors where it lies beside them. `direct`: see io::File::Open.
TensorIndex OpenTensorIndex(const std::string& directory, bool direct);

// The shard of every tensor from an index file's text. kCorrupt: not such a file, or a shard name
// that is no plain file name.
Result<std::map<std::string, std::string>> ParseWeightMap(std::string_view json,
                                                          std::string_view name);

}  // namespace slotstream::checkpoint
