// The safetensors container: a JSON header that names tensors, then their bytes.
//
//   u64 little-endian header length n | n bytes of JSON | data
//   header: {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//            "__metadata__": {...}}, offsets relative to the data
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file.h"

namespace slotstream::checkpoint {

enum class Dtype {
  kBool,
  kU8,
  kI8,
  kF8,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

size_t DtypeBytes(Dtype dtype);
// As in the header, e.g. "BF16"; every 8-bit float is "F8".
std::string_view DtypeName(Dtype dtype);

struct TensorInfo {
  Dtype dtype = Dtype::kU8;
  std::vector<uint64_t> shape;
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;   // product of shape and DtypeBytes
};

using TensorMap = std::map<std::string, TensorInfo, std::less<>>;

// The format's own limit for a header.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// Parses a header. Data begins at `data_start` and ends with the file; `name` (a path) appears in
// errors. kCorrupt: not JSON, a name twice, unknown dtype, a shape that contradicts its range,
// ranges that overlap, leave gaps or pass the end of the file.
Result<TensorMap> ParseSafetensorsHeader(std::string_view json, uint64_t data_start,
                                         uint64_t file_size, std::string_view name);

// An open safetensors file. Immutable and thread-safe.
class SafetensorsFile {
 public:
  // Errors: those of io::File::Open and ParseSafetensorsHeader.
  static Result<std::unique_ptr<SafetensorsFile>> Open(const std::string& path, bool direct);

  const io::File& file() const { return *file_; }
  const TensorMap& tensors() const { return tensors_; }
  uint64_t data_start() const { return data_start_; }

 private:
  SafetensorsFile(std::unique_ptr<io::File> file, TensorMap tensors, uint64_t data_start)
      : file_(std::move(file)), tensors_(std::move(tensors)), data_start_(data_start) {}

  std::unique_ptr<io::File> file_;
  TensorMap tensors_;
  uint64_t data_start_;
};

// A tensor to write; `data` has exactly the bytes that dtype and shape ask for.
struct TensorData {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> shape;
  std::span<const std::byte> data;
};

// Writes a safetensors file atomically. The file is composed in memory, so this is for results
// (logits, ids), not for models. kInvalidArgument when data and shape disagree; errors of
// io::WriteFileAtomically.
Status WriteSafetensors(const std::string& path, std::span<const TensorData> tensors);

}  // namespace slotstream::checkpoint
