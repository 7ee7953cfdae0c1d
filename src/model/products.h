// Matrix products of one pass, split among threads.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/resident.h"
#include "kernels/kernels.h"

namespace slotstream::model {

using kernels::ConstRows;
using kernels::MutableRows;
using kernels::PreparedRows;

// One product y = W x; W in panels or bf16. y has W.n columns.
struct Product {
  std::variant<checkpoint::PanelMatrix, checkpoint::Bf16Matrix> weight;
  MutableRows y;
};

// What the layers compute with: the chosen kernels and compute mode, the threads, and the prepared
// rows that panel products share. Not thread-safe.
class Compute {
 public:
  // `scratch`, aligned to a cache line, holds the prepared rows of any one input: ScratchBytes.
  Compute(const kernels::KernelTable& kernel_table, kernels::ComputeMode mode,
          ThreadPool& thread_pool, std::span<std::byte> scratch)
      : kernels_(kernel_table), mode_(mode), threads_(thread_pool), scratch_(scratch) {}

  // For inputs of up to max_rows rows and max_inputs columns, in groups of at least min_group.
  static size_t ScratchBytes(kernels::ComputeMode mode, size_t max_rows, size_t max_inputs,
                             size_t min_group) {
    return max_rows * kernels::PreparedBytes(mode, max_inputs, min_group);
  }

  const kernels::KernelTable& kernels() const { return kernels_; }
  kernels::ComputeMode mode() const { return mode_; }
  // From the next product on; the scratch must fit its prepared rows too.
  void UseMode(kernels::ComputeMode mode) { mode_ = mode; }
  const kernels::PanelKernels& panels() const { return kernels_.panel(mode_); }
  ThreadPool& threads() { return threads_; }

  // fn(row) or fn(row, worker) for each row of a pass.
  template <typename Fn>
  void ForRows(size_t rows, const Fn& fn) {
    threads_.ParallelFor(rows, fn);
  }

  // All products of one input x [rows, k] in one parallel loop.
  void Run(ConstRows x, size_t k, size_t rows, std::initializer_list<Product> products);

 private:
  // A piece of a product: outputs [first, last) in panels or rows of W, rows [row, row + rows).
  struct Task {
    const Product* product;
    uint32_t first, last;
    uint32_t row, rows;
  };
  PreparedRows Prepare(ConstRows x, size_t k, size_t group, size_t rows);
  void AddTasks(const Product& product, size_t rows);

  const kernels::KernelTable& kernels_;
  kernels::ComputeMode mode_;
  ThreadPool& threads_;
  std::span<std::byte> scratch_;
  std::vector<Task> tasks_;
};

}  // namespace slotstream::model
