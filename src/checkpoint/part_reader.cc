#include "checkpoint/part_reader.h"

#include <algorithm>
#include <cstring>

#include "base/bf16.h"
#include "checkpoint/panel.h"

namespace slotstream::checkpoint {
namespace {

// Bytes of one row in each of the file's pieces.
struct RowBytes {
  size_t weight = 0;
  size_t scales = 0;  // and of biases
  size_t total() const { return weight + 2 * scales; }
};

bool IsVector(const ResidentTensor& tensor) { return tensor.storage == Storage::kFloat32; }

RowBytes SourceRowBytes(const ResidentTensor& tensor, const ResidentSource& source) {
  switch (tensor.storage) {
    case Storage::kPanels:
    case Storage::kRows:
      return {tensor.k / 2, size_t{tensor.k} / tensor.group * 2};
    case Storage::kBf16:
      return {size_t{tensor.k} * 2, 0};
    case Storage::kFloat32:
      return {DtypeBytes(source.pieces.weight.dtype), 0};
  }
  return {};
}

void PackRows(const ResidentTensor& tensor, uint32_t rows, std::span<const std::byte* const> data,
              std::byte* out) {
  const size_t words = tensor.k / 2;
  const size_t scales = size_t{tensor.k} / tensor.group * 2;
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(out, data[0] + row * words, words);
    std::memcpy(out + words, data[1] + row * scales, scales);
    std::memcpy(out + words + scales, data[2] + row * scales, scales);
    out += words + 2 * scales;
  }
}

float ReadFloat(const std::byte* data, Dtype dtype, size_t i) {
  if (dtype == Dtype::kF32) {
    float value = 0;
    std::memcpy(&value, data + i * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t value = 0;
  std::memcpy(&value, data + i * sizeof(value), sizeof(value));
  return Bf16ToFloat(value);
}

}  // namespace

PartReader::PartReader(const TensorIndex& index, const Inventory& inventory,
                       const PartInventory& part)
    : index_(index), inventory_(inventory), part_(part) {
  for (size_t i = 0; i < part.layout.tensors.size(); ++i) AddBlocks(i);
}

void PartReader::AddBlocks(size_t i) {
  const ResidentTensor& tensor = part_.layout.tensors[i];
  const ResidentSource& source = part_.sources[i];
  const uint32_t rows = IsVector(tensor) ? tensor.n * tensor.k : tensor.n;
  const size_t row_bytes = SourceRowBytes(tensor, source).total();
  uint32_t step = static_cast<uint32_t>(std::clamp<size_t>(kPartBlockBytes / row_bytes, 1, rows));
  if (tensor.storage == Storage::kPanels) step = AlignUp(step, kPanelOutputs);
  if (source.conversion == Conversion::kTranspose) step = rows;  // its outputs lie far apart

  const PanelShape panels{tensor.n, tensor.k, tensor.group};
  auto offset_of = [&](uint32_t row) -> uint64_t {
    if (row >= rows) return tensor.bytes;
    if (tensor.storage == Storage::kPanels) return panels.panel_offset(row / kPanelOutputs);
    return tensor.bytes / rows * row;
  };
  for (uint32_t first = 0; first < rows;) {
    const uint32_t count = std::min(step, rows - first);
    const uint64_t begin = offset_of(first);
    blocks_.push_back({.tensor = i,
                       .first = first,
                       .rows = count,
                       .offset = tensor.offset + begin,
                       .bytes = offset_of(first + count) - begin});
    first += count;
  }
}

void PartReader::Describe(const Block& block, std::vector<FileRange>& out) const {
  const ResidentTensor& tensor = part_.layout.tensors[block.tensor];
  const ResidentSource& source = part_.sources[block.tensor];
  const RowBytes row = SourceRowBytes(tensor, source);
  auto add = [&](const TensorSource& piece, size_t row_bytes) {
    out.push_back({&index_.files[piece.file]->file(), piece.offset + block.first * row_bytes,
                   block.rows * row_bytes});
  };
  add(source.pieces.weight, row.weight);
  if (row.scales == 0) return;
  add(source.pieces.scales, row.scales);
  add(source.pieces.biases, row.scales);
}

void PartReader::Widen(const Block& block, const std::byte* data, std::byte* out) const {
  const ResidentTensor& tensor = part_.layout.tensors[block.tensor];
  const ResidentSource& source = part_.sources[block.tensor];
  const TensorSource& piece = source.pieces.weight;
  const bool draft = piece.file == index_.draft_file;
  const bool add_one = source.conversion == Conversion::kNormPlusOne &&
                       (draft ? inventory_.add_one_draft : inventory_.add_one_model);
  for (uint32_t i = 0; i < block.rows; ++i) {
    float value = ReadFloat(data, piece.dtype, i);
    if (add_one) value += 1.0f;
    size_t at = i;
    if (source.conversion == Conversion::kTranspose) {
      const uint32_t channel = i / tensor.n;
      const uint32_t tap = i % tensor.n;
      at = size_t{tap} * tensor.k + channel;
    }
    std::memcpy(out + at * sizeof(value), &value, sizeof(value));
  }
}

void PartReader::Arrange(const Block& block, std::span<const std::byte* const> data,
                         std::byte* out) const {
  const ResidentTensor& tensor = part_.layout.tensors[block.tensor];
  switch (tensor.storage) {
    case Storage::kPanels:
      PackPanels(PanelShape{block.rows, tensor.k, tensor.group}, data[0], data[1], data[2], out);
      break;
    case Storage::kRows:
      PackRows(tensor, block.rows, data, out);
      break;
    case Storage::kBf16:
      std::memcpy(out, data[0], block.bytes);
      break;
    case Storage::kFloat32:
      Widen(block, data[0], out);
      break;
  }
}

Status PartReader::Read(
    io::ReadQueue& queue, uint64_t begin,
    const std::function<std::span<std::byte>(uint64_t offset, size_t bytes)>& place,
    const std::function<Status(uint64_t offset, size_t bytes)>& done) const {
  const auto skipped = std::ranges::find_if(
      blocks_, [&](const Block& block) { return block.offset + block.bytes > begin; });
  const std::span<const Block> blocks(skipped, blocks_.end());
  return ReadStaged(
      queue, blocks.size(),
      [&](size_t job, std::vector<FileRange>& out) { Describe(blocks[job], out); },
      [&](size_t job, std::span<const std::byte* const> data) -> Status {
        const Block& block = blocks[job];
        Arrange(block, data, place(block.offset, block.bytes).data());
        return done(block.offset, block.bytes);
      });
}

}  // namespace slotstream::checkpoint
