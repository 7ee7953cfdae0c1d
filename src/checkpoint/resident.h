// Resident tensors: what stays in memory while the model runs, and how it lies there.
//
// A part (trunk, draft head, vision tower) is one block of bytes. Its layout is computed from the
// config and the group sizes found in the checkpoint, and is the same in memory and in a packed
// file, so that loading a packed part is one forward read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "checkpoint/panel.h"

namespace slotstream::checkpoint {

enum class Part { kTrunk, kDraft, kVision };

enum class Storage {
  kPanels,   // 4-bit matrix in panels (panel.h); n outputs, k inputs
  kRows,     // 4-bit table read by row: per row k/8 u32 words, k/group scales, k/group biases
  kBf16,     // bf16 as in the checkpoint, row-major [n, k]
  kFloat32,  // float32 [n, k]: norms (with the +1 applied where the file lacks it), convolutions
             // (transposed to [kernel, channels]), A_log and dt_bias as in the file (-exp(A_log)
             // is left to the model), all norms and biases of the vision tower
};

// "panels", "rows", "bf16", "float32".
std::string_view StorageName(Storage storage);

struct ResidentTensor {
  std::string name;  // the checkpoint's name less prefix and ".weight":
                     // "layers.0.linear_attn.in_proj_qkv", "embed_tokens", "lm_head",
                     // "hyper_connection_mixer.hc_norm", "mtp.fc_hidden", "vision.blocks.0.norm1";
                     // a bias keeps its suffix: "vision.blocks.0.norm1.bias"
  Storage storage = Storage::kBf16;
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t group = 0;   // kPanels and kRows only
  uint64_t offset = 0;  // in the part; a multiple of 64
  uint64_t bytes = 0;
  bool operator==(const ResidentTensor&) const = default;
};

struct ResidentLayout {
  std::vector<ResidentTensor> tensors;  // by rising offset, without overlap
  uint64_t bytes = 0;                   // a multiple of kPageSize

  // nullptr when there is no such tensor.
  const ResidentTensor* Find(std::string_view name) const;
};

// A matrix in panels.
struct PanelMatrix {
  const std::byte* data = nullptr;
  PanelShape shape;
};
// A bf16 matrix, row-major.
struct Bf16Matrix {
  const uint16_t* data = nullptr;
  uint32_t n = 0;
  uint32_t k = 0;
};
// A table of dequantizable rows.
struct RowTable {
  const std::byte* data = nullptr;
  uint32_t n = 0;
  uint32_t width = 0;
  uint32_t group = 0;
  size_t row_bytes() const { return width / 2 + size_t{width} / group * 4; }
  const std::byte* row(uint32_t i) const { return data + i * row_bytes(); }
};

// A loaded part. Immutable; safe to share among threads.
class ResidentPart {
 public:
  ResidentPart(ResidentLayout layout, AlignedBuffer memory)
      : layout_(std::move(layout)), memory_(std::move(memory)) {}

  uint64_t bytes() const { return memory_.size(); }

  // Views by name; kInternal when the name or its storage is wrong (the inventory was checked when
  // the checkpoint was opened, so that is a bug of the caller).
  Result<PanelMatrix> panels(std::string_view name) const;
  Result<RowTable> rows(std::string_view name) const;
  Result<Bf16Matrix> bf16(std::string_view name) const;
  Result<const float*> floats(std::string_view name) const;

 private:
  Result<const ResidentTensor*> Get(std::string_view name, Storage storage) const;

  ResidentLayout layout_;
  AlignedBuffer memory_;
};

}  // namespace slotstream::checkpoint
