// A resident part from the tensors of an original checkpoint, block by block in layout order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/inventory.h"
#include "checkpoint/staged_read.h"
#include "io/read_queue.h"

namespace slotstream::checkpoint {

// Source bytes of one block. The few blocks in flight are all the memory that reading needs.
inline constexpr size_t kPartBlockBytes = 1 << 20;

class PartReader {
 public:
  // All three outlive the reader. The inventory has no problems.
  PartReader(const TensorIndex& index, const Inventory& inventory, const PartInventory& part);

  // Reads the blocks that end after byte `begin` of the part, in order. For each, `place` gives
  // memory for its bytes, which belong at `offset` of the part, and `done` is called once they are
  // there. Blocks do not overlap; the bytes between them are zero. The queue must be idle.
  // Errors: those of the reads and of `done`.
  Status Read(io::ReadQueue& queue, uint64_t begin,
              const std::function<std::span<std::byte>(uint64_t offset, size_t bytes)>& place,
              const std::function<Status(uint64_t offset, size_t bytes)>& done) const;

 private:
  // Rows of one tensor: outputs of a matrix, elements of a vector.
  struct Block {
    size_t tensor = 0;
    uint32_t first = 0;
    uint32_t rows = 0;
    uint64_t offset = 0;  // in the part
    size_t bytes = 0;     // in the part
  };

  void AddBlocks(size_t tensor);
  void Describe(const Block& block, std::vector<FileRange>& out) const;
  void Arrange(const Block& block, std::span<const std::byte* const> data, std::byte* out) const;
  void Widen(const Block& block, const std::byte* data, std::byte* out) const;

  const TensorIndex& index_;
  const Inventory& inventory_;
  const PartInventory& part_;
  std::vector<Block> blocks_;
};

}  // namespace slotstream::checkpoint
