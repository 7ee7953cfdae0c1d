// A checkpoint directory in either form, behind one interface:
//
//   original   safetensors as published (MLX 4-bit layout): nine pieces per expert, three per
//              n-gram row, brought into our order on arrival; no checksums exist for it
//   packed     our own form (docs/FORMATS.md): one contiguous record per expert, pages of n-gram
//              rows, CRC-32C over everything
//
// Open() reads and checks configuration, headers and the whole tensor inventory, and allocates
// nothing large. The data itself is read through an io::ReadQueue of the caller's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"
#include "checkpoint/ngram_hash.h"
#include "checkpoint/panel.h"
#include "checkpoint/resident.h"
#include "io/file.h"
#include "io/read_queue.h"

namespace slotstream::checkpoint {

// A range to read for one record. Offsets, lengths and destinations of direct files are multiples
// of kPageSize; `required` is what must arrive (the rest may lie past the end of the file).
struct ReadPiece {
  const io::File* file = nullptr;
  uint64_t offset = 0;
  uint32_t length = 0;
  uint32_t required = 0;
  size_t destination = 0;  // byte offset in the staging area, or in the record if there is none

  // The read that brings it, for a staging area or record that begins at `base`.
  io::ReadRequest Request(std::byte* base, uint64_t tag) const {
    return {.file = file,
            .offset = offset,
            .destination = base + destination,
            .length = length,
            .required = required,
            .tag = tag};
  }
};

// One routed expert in memory: gate, up and down panels one after another.
struct ExpertShape {
  PanelShape gate;  // [expert_size, hidden]
  PanelShape up;
  PanelShape down;  // [hidden, expert_size]
  size_t up_offset() const { return gate.bytes(); }
  size_t down_offset() const { return gate.bytes() + up.bytes(); }
  size_t bytes() const { return down_offset() + down.bytes(); }
  size_t record_bytes() const { return AlignUp(bytes(), kPageSize); }
};

// How routed experts are read. Layers count from 0; with a draft head, layer num_layers() + i is
// its layer i. Immutable and thread-safe.
class ExpertFormat {
 public:
  virtual ~ExpertFormat() = default;
  const ExpertShape& shape() const { return shape_; }
  uint32_t layers() const { return layers_; }
  uint32_t experts() const { return experts_; }

  // Bytes of page-aligned staging that a read of one record needs; 0 when pieces land in the
  // record itself.
  virtual size_t staging_bytes() const = 0;
  // Appends the reads of one record, in file order.
  virtual void AppendPieces(uint32_t layer, uint32_t expert, std::vector<ReadPiece>& out) const = 0;
  // After all pieces have arrived: checks or rearranges them, so that `record`
  // (shape().record_bytes() bytes) holds the expert. kCorrupt names file, layer, expert and offset.
  virtual Status Finish(uint32_t layer, uint32_t expert, std::span<const std::byte> staging,
                        std::span<std::byte> record) const = 0;
  // A key that rises with the position in the file, to sort reads by.
  virtual uint64_t FileOrder(uint32_t layer, uint32_t expert) const = 0;

 protected:
  ExpertFormat(ExpertShape shape, uint32_t layers, uint32_t experts)
      : shape_(shape), layers_(layers), experts_(experts) {}

 private:
  ExpertShape shape_;
  uint32_t layers_;
  uint32_t experts_;
};

// How rows of one layer's n-gram table are read. A row in memory is width/8 u32 words, width/group
// bf16 scales and as many biases. Immutable and thread-safe.
class NgramFormat {
 public:
  virtual ~NgramFormat() = default;
  uint64_t rows() const { return rows_; }
  uint32_t width() const { return width_; }
  uint32_t group() const { return group_; }
  size_t row_bytes() const { return width_ / 2 + size_t{width_} / group_ * 4; }

  // Bytes of page-aligned staging that a read of one row needs.
  virtual size_t staging_bytes() const = 0;
  // Appends the reads of one row; `row` < rows().
  virtual void AppendPieces(uint64_t row, std::vector<ReadPiece>& out) const = 0;
  // Checks the staged bytes and copies the row out. kCorrupt names file, row and offset.
  virtual Status Finish(uint64_t row, std::span<const std::byte> staging,
                        std::span<std::byte> out) const = 0;

 protected:
  NgramFormat(uint64_t rows, uint32_t width, uint32_t group)
      : rows_(rows), width_(width), group_(group) {}

 private:
  uint64_t rows_;
  uint32_t width_;
  uint32_t group_;
};

// kCancelled once `cancel`, which may be null, is true.
Status CheckCancel(const std::atomic<bool>* cancel);

enum class Form { kOriginal, kPacked };

// Which form a directory has, by the files in it. kNotFound: neither.
Result<Form> DetectForm(const std::string& directory);

struct OpenOptions {
  bool direct = true;  // ask for O_DIRECT on large files
};

class Checkpoint {
 public:
  // kNotFound, kCorrupt, kUnsupported with file, tensor and advice.
  static Result<std::unique_ptr<Checkpoint>> Open(const std::string& directory,
                                                  const OpenOptions& options = {});
  virtual ~Checkpoint() = default;

  virtual Form form() const = 0;
  const std::string& directory() const { return directory_; }
  const ModelConfig& config() const { return config_; }
  bool has_draft() const { return layout(Part::kDraft) != nullptr; }
  bool has_vision() const { return layout(Part::kVision) != nullptr; }

  // nullptr when the checkpoint lacks the part; the trunk is always there.
  virtual const ResidentLayout* layout(Part part) const = 0;
  // Allocates and fills a part. `progress` (may be empty) is told the bytes done so far. `cancel`
  // (may be null) is looked at with every piece; once it is true the result is kCancelled.
  virtual Result<ResidentPart> Load(Part part, io::ReadQueue& queue,
                                    const std::function<void(uint64_t)>& progress,
                                    const std::atomic<bool>* cancel = nullptr) const = 0;

  // The files that experts and n-gram rows are read from all the time, in a fixed order; empty
  // where they cannot be mirrored, because nothing tells whether a copy's bytes are right.
  virtual std::vector<const io::File*> streamed_files() const { return {}; }

  virtual const ExpertFormat& experts() const = 0;
  // The table of the i-th entry of config().ple_layers.
  virtual const NgramFormat& ngrams(size_t i) const = 0;

 protected:
  Checkpoint(std::string directory, ModelConfig config)
      : directory_(std::move(directory)), config_(std::move(config)) {}

 private:
  std::string directory_;
  ModelConfig config_;
};

}  // namespace slotstream::checkpoint
