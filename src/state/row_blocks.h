// Rows that only grow, in blocks that copies share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace slotstream::state {

// An append-only list of equally wide float32 rows, so that it grows without moving and without
// reserving the whole context. A copy shares all blocks and costs a pointer per block. Of lists
// that share a last, partly filled block the first to append goes on in it, and every other takes a
// copy of its rows first; what a list has shown once never changes.
//
// One thread at a time writes a list; lists that share blocks may live on different threads.
class RowBlocks {
 public:
  static constexpr size_t kRowsPerBlock = 256;

  explicit RowBlocks(size_t width) : width_(width) {}

  size_t size() const { return size_; }
  size_t width() const { return width_; }
  size_t block_bytes() const { return kRowsPerBlock * width_ * sizeof(float); }
  // Of all blocks, shared ones included.
  uint64_t bytes() const { return blocks_.size() * uint64_t{block_bytes()}; }

  // Appends a row with undefined contents and returns it.
  float* Append();
  // Appends 1 to `most` such rows that lie side by side.
  std::span<float> AppendRows(size_t most);
  const float* row(size_t i) const {
    return blocks_[i / kRowsPerBlock].rows + (i % kRowsPerBlock) * width_;
  }
  // Rows from the i-th on that lie side by side, at most `most`.
  std::span<const float> RowsFrom(size_t i, size_t most) const;
  // A list of the first `rows` rows, at most size(), which shares their blocks.
  RowBlocks First(size_t rows) const;

  // The i-th block's identity, equal in lists that share it.
  size_t blocks() const { return blocks_.size(); }
  const void* block(size_t i) const { return blocks_[i].rows; }

 private:
  struct Block {
    explicit Block(size_t floats) : rows(std::make_unique_for_overwrite<float[]>(floats)) {}
    // Rows that some list has appended.
    std::atomic<size_t> taken = 0;
    const std::unique_ptr<float[]> rows;
  };
  struct Part {
    std::shared_ptr<Block> block;
    float* rows = nullptr;  // the block's, one step nearer
  };

  Part NewBlock(size_t taken) const;

  size_t width_;
  size_t size_ = 0;
  std::vector<Part> blocks_;  // as many as size_ rows need
};

}  // namespace slotstream::state
