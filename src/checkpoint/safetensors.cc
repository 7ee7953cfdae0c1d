#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "checkpoint/strict_json.h"
#include "io/atomic_file.h"

namespace slotstream::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

using nlohmann::json;

struct DtypeEntry {
  std::string_view name;
  Dtype dtype;
  size_t bytes;
};
// No 8-bit float is ever computed with, so all of them share one Dtype.
constexpr std::array<DtypeEntry, 17> kDtypes = {{{"BOOL", Dtype::kBool, 1},
                                                 {"U8", Dtype::kU8, 1},
                                                 {"I8", Dtype::kI8, 1},
                                                 {"F8", Dtype::kF8, 1},
                                                 {"F8_E4M3", Dtype::kF8, 1},
                                                 {"F8_E5M2", Dtype::kF8, 1},
                                                 {"F8_E8M0", Dtype::kF8, 1},
                                                 {"I16", Dtype::kI16, 2},
                                                 {"U16", Dtype::kU16, 2},
                                                 {"F16", Dtype::kF16, 2},
                                                 {"BF16", Dtype::kBf16, 2},
                                                 {"I32", Dtype::kI32, 4},
                                                 {"U32", Dtype::kU32, 4},
                                                 {"F32", Dtype::kF32, 4},
                                                 {"F64", Dtype::kF64, 8},
                                                 {"I64", Dtype::kI64, 8},
                                                 {"U64", Dtype::kU64, 8}}};

const DtypeEntry& EntryOf(Dtype dtype) {
  return *std::ranges::find(kDtypes, dtype, &DtypeEntry::dtype);
}

// Names come from the file; a message quotes at most this much of one.
std::string Quoted(std::string_view name) { return std::string(name.substr(0, 200)); }

std::unexpected<Error> BadTensor(std::string_view file, std::string_view tensor,
                                 std::string_view what) {
  return Fail(ErrorCode::kCorrupt, fmt::format("{}: tensor {}: {}", file, Quoted(tensor), what));
}

// Product of shape and element size; nullopt when it passes 2^63.
std::optional<uint64_t> ByteCount(const std::vector<uint64_t>& shape, size_t element) {
  uint64_t bytes = element;
  for (uint64_t n : shape) {
    if (__builtin_mul_overflow(bytes, n, &bytes) || bytes > uint64_t{INT64_MAX}) {
      return std::nullopt;
    }
  }
  return bytes;
}

Result<TensorInfo> ParseTensor(const std::string& tensor, const json& value, uint64_t data_start,
                               uint64_t data_bytes, std::string_view file) {
  constexpr size_t kMaxRank = 16;
  if (!value.is_object()) return BadTensor(file, tensor, "its entry is not an object");
  auto dtype = value.find("dtype");
  auto shape = value.find("shape");
  auto range = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string()) return BadTensor(file, tensor, "no dtype");
  if (shape == value.end() || !shape->is_array() || shape->size() > kMaxRank) {
    return BadTensor(file, tensor, "no shape of at most 16 dimensions");
  }
  if (range == value.end() || !range->is_array() || range->size() != 2 ||
      !(*range)[0].is_number_unsigned() || !(*range)[1].is_number_unsigned()) {
    return BadTensor(file, tensor, "data_offsets must be two non-negative integers");
  }

  const std::string& dtype_name = dtype->get_ref<const std::string&>();
  auto entry = std::ranges::find(kDtypes, dtype_name, &DtypeEntry::name);
  if (entry == kDtypes.end()) {
    return BadTensor(file, tensor, fmt::format("unknown dtype \"{}\"", Quoted(dtype_name)));
  }
  TensorInfo info;
  info.dtype = entry->dtype;
  for (const json& n : *shape) {
    if (!n.is_number_unsigned()) {
      return BadTensor(file, tensor, "shape must hold non-negative integers");
    }
    info.shape.push_back(n.get<uint64_t>());
  }
  const std::optional<uint64_t> bytes = ByteCount(info.shape, entry->bytes);
  if (!bytes) return BadTensor(file, tensor, "its shape is too large");
  const uint64_t begin = (*range)[0].get<uint64_t>();
  const uint64_t end = (*range)[1].get<uint64_t>();
  if (begin > end || end - begin != *bytes) {
    return BadTensor(file, tensor,
                     fmt::format("data_offsets [{}, {}] do not span the {} bytes of its shape",
                                 begin, end, *bytes));
  }
  if (end > data_bytes) {
    return BadTensor(file, tensor,
                     fmt::format("ends at byte {}, but the file ends at {}: it is truncated; "
                                 "download it again",
                                 data_start + end, data_start + data_bytes));
  }
  info.offset = data_start + begin;
  info.bytes = *bytes;
  return info;
}

// The format wants data without holes: every byte belongs to exactly one tensor.
Status CheckCoverage(const TensorMap& tensors, uint64_t data_start, uint64_t file_size,
                     std::string_view file) {
  std::vector<TensorMap::const_pointer> by_offset;
  for (const auto& entry : tensors) by_offset.push_back(&entry);
  std::ranges::sort(by_offset, {}, [](auto* entry) {
    return std::pair(entry->second.offset, entry->second.bytes);
  });
  uint64_t expected = data_start;
  for (const auto* entry : by_offset) {
    if (entry->second.offset != expected) {
      return BadTensor(
          file, entry->first,
          fmt::format("begins at byte {}, {} the data before it, which ends at {}",
                      entry->second.offset,
                      entry->second.offset < expected ? "inside" : "with a gap after", expected));
    }
    expected += entry->second.bytes;
  }
  if (expected != file_size) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: {} bytes follow the last tensor", file, file_size - expected));
  }
  return {};
}

}  // namespace

size_t DtypeBytes(Dtype dtype) { return EntryOf(dtype).bytes; }
std::string_view DtypeName(Dtype dtype) { return EntryOf(dtype).name; }

Result<TensorMap> ParseSafetensorsHeader(std::string_view text, uint64_t data_start,
                                         uint64_t file_size, std::string_view name) {
  SS_ASSIGN_OR_RETURN(const json header, ParseStrictJson(text, name));
  if (!header.is_object()) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: the header is not a JSON object", name));
  }
  TensorMap tensors;
  for (const auto& [tensor, value] : header.items()) {
    if (tensor == "__metadata__") continue;
    SS_ASSIGN_OR_RETURN(TensorInfo info,
                        ParseTensor(tensor, value, data_start, file_size - data_start, name));
    tensors.emplace(tensor, std::move(info));
  }
  SS_RETURN_IF_ERROR(CheckCoverage(tensors, data_start, file_size, name));
  return tensors;
}

Result<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path,
                                                               bool direct) {
  SS_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, io::File::Open(path, direct));
  uint64_t length = 0;
  if (file->size() < sizeof(length)) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: {} bytes are no safetensors file", path, file->size()));
  }
  SS_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxSafetensorsHeader || length > file->size() - sizeof(length)) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: a header of {} bytes is announced in a file of {} (at most {} are "
                            "allowed): no safetensors file, or a truncated one",
                            path, length, file->size(), kMaxSafetensorsHeader));
  }
  std::string text(length, '\0');
  SS_RETURN_IF_ERROR(file->ReadAt(sizeof(length), std::as_writable_bytes(std::span(text))));
  const uint64_t data_start = sizeof(length) + length;
  SS_ASSIGN_OR_RETURN(TensorMap tensors,
                      ParseSafetensorsHeader(text, data_start, file->size(), path));
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(std::move(file), std::move(tensors), data_start));
}

Status WriteSafetensors(const std::string& path, std::span<const TensorData> tensors) {
  json header = json::object();
  uint64_t size = 0;
  for (const TensorData& tensor : tensors) {
    if (ByteCount(tensor.shape, DtypeBytes(tensor.dtype)) != tensor.data.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: tensor {}: {} bytes do not match its shape", path, tensor.name,
                              tensor.data.size()));
    }
    const uint64_t end = size + tensor.data.size();
    json entry = {{"dtype", DtypeName(tensor.dtype)}, {"shape", tensor.shape}};
    entry["data_offsets"] = {size, end};
    if (!header.emplace(tensor.name, std::move(entry)).second) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: tensor {} is given twice", path, tensor.name));
    }
    size = end;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize(AlignUp(text.size(), 8), ' ');  // aligned data, for readers that map the file

  const uint64_t length = text.size();
  std::vector<std::byte> bytes(sizeof(length) + length + size);
  std::memcpy(bytes.data(), &length, sizeof(length));
  std::memcpy(bytes.data() + sizeof(length), text.data(), length);
  size_t at = sizeof(length) + length;
  for (const TensorData& tensor : tensors) {
    std::ranges::copy(tensor.data, bytes.begin() + static_cast<ptrdiff_t>(at));
    at += tensor.data.size();
  }
  return io::WriteFileAtomically(path, bytes);
}

}  // namespace slotstream::checkpoint
