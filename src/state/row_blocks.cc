#include "state/row_blocks.h"

#include <algorithm>

namespace slotstream::state {

RowBlocks::Part RowBlocks::NewBlock(size_t taken) const {
  auto block = std::make_shared<Block>(kRowsPerBlock * width_);
  block->taken.store(taken, std::memory_order_relaxed);
  float* rows = block->rows.get();
  return {std::move(block), rows};
}

float* RowBlocks::Append() { return AppendRows(1).data(); }

std::span<float> RowBlocks::AppendRows(size_t most) {
  const size_t at = size_ % kRowsPerBlock;
  const size_t count = std::min(most, kRowsPerBlock - at);
  if (at == 0) {
    blocks_.push_back(NewBlock(count));
  } else if (size_t expected = at; !blocks_.back().block->taken.compare_exchange_strong(
                 expected, at + count, std::memory_order_relaxed)) {
    // Another list has gone on in this block already.
    Part own = NewBlock(at + count);
    std::copy_n(blocks_.back().rows, at * width_, own.rows);
    blocks_.back() = std::move(own);
  }
  size_ += count;
  return {blocks_.back().rows + at * width_, count * width_};
}

std::span<const float> RowBlocks::RowsFrom(size_t i, size_t most) const {
  const size_t count = std::min({most, kRowsPerBlock - i % kRowsPerBlock, size_ - i});
  return {row(i), count * width_};
}

RowBlocks RowBlocks::First(size_t rows) const {
  RowBlocks first(width_);
  first.size_ = rows;
  const size_t blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
  first.blocks_.assign(blocks_.begin(), blocks_.begin() + static_cast<ptrdiff_t>(blocks));
  return first;
}

}  // namespace slotstream::state
