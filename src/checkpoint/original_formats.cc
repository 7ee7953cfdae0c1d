#include "checkpoint/original_formats.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoint/staged_read.h"

namespace slotstream::checkpoint {
namespace {

// Room for a piece of `bytes` that may begin anywhere in a page of a direct file.
size_t StagedBytes(uint64_t bytes) { return AlignUp(bytes, kPageSize) + kPageSize; }

// A piece and the staging area's byte where its aligned read begins.
struct StagedPiece {
  FileRange range;
  size_t place = 0;
};

// Where the piece itself begins in the staging area.
size_t FirstByte(const StagedPiece& piece) {
  return piece.place + (piece.range.offset - AlignedRange(piece.range).offset);
}

template <size_t N>
void AppendStaged(std::array<StagedPiece, N> pieces, std::span<const uint64_t> file_bases,
                  std::span<const uint32_t> files, std::vector<ReadPiece>& out) {
  std::array<uint8_t, N> order;
  for (uint8_t i = 0; i < N; ++i) order[i] = i;
  std::ranges::sort(order, {},
                    [&](uint8_t i) { return file_bases[files[i]] + pieces[i].range.offset; });
  for (uint8_t i : order) {
    const FileRange whole = AlignedRange(pieces[i].range);
    out.push_back(ReadPiece{.file = whole.file,
                            .offset = whole.offset,
                            .length = static_cast<uint32_t>(whole.bytes),
                            .required = static_cast<uint32_t>(pieces[i].range.offset -
                                                              whole.offset + pieces[i].range.bytes),
                            .destination = pieces[i].place});
  }
}

// Where each file would begin if all lay one after another, to order reads across files.
std::vector<uint64_t> FileBases(const TensorIndex& index) {
  std::vector<uint64_t> out;
  uint64_t base = 0;
  for (const auto& file : index.files) {
    out.push_back(base);
    base += file->file().size();
  }
  return out;
}

class OriginalExperts final : public ExpertFormat {
 public:
  OriginalExperts(const ModelConfig& config, const TensorIndex& index, const Inventory& inventory)
      : ExpertFormat(inventory.expert, static_cast<uint32_t>(inventory.experts.size()),
                     config.num_experts),
        index_(index),
        file_bases_(FileBases(index)),
        layers_(inventory.experts) {
    size_t place = 0;
    const std::array<const TensorSource*, kPieces> sources = Sources(0);
    for (size_t i = 0; i < kPieces; ++i) {
      places_[i] = place;
      place += StagedBytes(sources[i]->bytes / experts());
    }
    staging_bytes_ = place;
  }

  size_t staging_bytes() const override { return staging_bytes_; }

  void AppendPieces(uint32_t layer, uint32_t expert, std::vector<ReadPiece>& out) const override {
    std::array<uint32_t, kPieces> files;
    const auto sources = Sources(layer);
    for (size_t i = 0; i < kPieces; ++i) files[i] = sources[i]->file;
    AppendStaged(Pieces(layer, expert), file_bases_, files, out);
  }

  Status Finish(uint32_t layer, uint32_t expert, std::span<const std::byte> staging,
                std::span<std::byte> record) const override {
    const std::array<StagedPiece, kPieces> pieces = Pieces(layer, expert);
    std::byte* out = record.data();
    size_t i = 0;
    for (const PanelShape& matrix : {shape().gate, shape().up, shape().down}) {
      PackPanels(matrix, staging.data() + FirstByte(pieces[i]),
                 staging.data() + FirstByte(pieces[i + 1]),
                 staging.data() + FirstByte(pieces[i + 2]), out);
      out += matrix.bytes();
      i += 3;
    }
    // Records compare equal whatever the slot held before.
    std::memset(out, 0, shape().record_bytes() - shape().bytes());
    return {};
  }

  uint64_t FileOrder(uint32_t layer, uint32_t expert) const override {
    const TensorSource& gate = layers_[layer].gate.weight;  // one of the three largest pieces
    return file_bases_[gate.file] + gate.offset + expert * (gate.bytes / experts());
  }

 private:
  static constexpr size_t kPieces = 9;

  std::array<const TensorSource*, kPieces> Sources(uint32_t layer) const {
    const ExpertLayerSource& s = layers_[layer];
    return {&s.gate.weight, &s.gate.scales, &s.gate.biases, &s.up.weight,  &s.up.scales,
            &s.up.biases,   &s.down.weight, &s.down.scales, &s.down.biases};
  }

  std::array<StagedPiece, kPieces> Pieces(uint32_t layer, uint32_t expert) const {
    std::array<StagedPiece, kPieces> out;
    const auto sources = Sources(layer);
    for (size_t i = 0; i < kPieces; ++i) {
      const uint64_t bytes = sources[i]->bytes / experts();
      out[i].range = {&index_.files[sources[i]->file]->file(), sources[i]->offset + expert * bytes,
                      bytes};
      out[i].place = places_[i];
    }
    return out;
  }

  const TensorIndex& index_;
  std::vector<uint64_t> file_bases_;
  std::vector<ExpertLayerSource> layers_;
  std::array<size_t, kPieces> places_{};
  size_t staging_bytes_ = 0;
};

class OriginalNgrams final : public NgramFormat {
 public:
  OriginalNgrams(const TensorIndex& index, const NgramTableSource& table)
      : NgramFormat(table.rows, table.width, table.group),
        index_(index),
        file_bases_(FileBases(index)),
        table_(table) {}

  size_t staging_bytes() const override {
    return StagedBytes(weight_bytes()) + 2 * StagedBytes(scale_bytes());
  }

  void AppendPieces(uint64_t row, std::vector<ReadPiece>& out) const override {
    const MatrixSource& shard = table_.shards[row / table_.rows_per_shard];
    const std::array<uint32_t, 3> files = {shard.weight.file, shard.scales.file, shard.biases.file};
    AppendStaged(Pieces(row), file_bases_, files, out);
  }

  Status Finish(uint64_t row, std::span<const std::byte> staging,
                std::span<std::byte> out) const override {
    size_t at = 0;
    for (const StagedPiece& piece : Pieces(row)) {
      std::memcpy(out.data() + at, staging.data() + FirstByte(piece), piece.range.bytes);
      at += piece.range.bytes;
    }
    return {};
  }

 private:
  size_t weight_bytes() const { return width() / 2; }
  size_t scale_bytes() const { return size_t{width()} / group() * 2; }

  std::array<StagedPiece, 3> Pieces(uint64_t row) const {
    const MatrixSource& shard = table_.shards[row / table_.rows_per_shard];
    const uint64_t in_shard = row % table_.rows_per_shard;
    auto piece = [&](const TensorSource& source, size_t bytes, size_t place) {
      return StagedPiece{
          {&index_.files[source.file]->file(), source.offset + in_shard * bytes, bytes}, place};
    };
    const size_t first = StagedBytes(weight_bytes());
    return {piece(shard.weight, weight_bytes(), 0), piece(shard.scales, scale_bytes(), first),
            piece(shard.biases, scale_bytes(), first + StagedBytes(scale_bytes()))};
  }

  const TensorIndex& index_;
  std::vector<uint64_t> file_bases_;
  NgramTableSource table_;
};

}  // namespace

std::unique_ptr<ExpertFormat> MakeOriginalExperts(const ModelConfig& config,
                                                  const TensorIndex& index,
                                                  const Inventory& inventory) {
  return std::make_unique<OriginalExperts>(config, index, inventory);
}

std::unique_ptr<NgramFormat> MakeOriginalNgrams(const TensorIndex& index,
                                                const NgramTableSource& table) {
  return std::make_unique<OriginalNgrams>(index, table);
}

}  // namespace slotstream::checkpoint
