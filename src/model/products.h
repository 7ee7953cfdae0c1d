// Matrix products of one pass, split among threads.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/resident.h"
#include "kernels/kernels.h"

namespace slotstream::model {

using kernels::ConstRows;
using kernels::MutableRows;

// One product y = W x; W in panels or bf16. y has W.n columns.
struct Product {
  std::variant<checkpoint::PanelMatrix, checkpoint::Bf16Matrix> weight;
  MutableRows y;
};

// What the layers compute with: the chosen kernels, the threads, and the group sums that panel
// products share. Not thread-safe.
class Compute {
 public:
  // `max_rows` and `max_inputs` bound the rows and the inputs of any product; `min_group` the
  // quantization groups.
  Compute(const kernels::KernelTable& kernel_table, ThreadPool& thread_pool, size_t max_rows,
          size_t max_inputs, size_t min_group);

  const kernels::KernelTable& kernels() const { return kernels_; }
  ThreadPool& threads() { return threads_; }

  // fn(row) or fn(row, worker) for each row of a pass.
  template <typename Fn>
  void ForRows(size_t rows, const Fn& fn) {
    threads_.ParallelFor(rows, fn);
  }

  // All products of one input x [rows, k] in one parallel loop.
  void Run(ConstRows x, size_t k, size_t rows, std::initializer_list<Product> products);

  // The group sums of x [rows, k], [rows, k / group], valid until the next call or Run.
  ConstRows GroupSums(ConstRows x, size_t k, size_t group, size_t rows);

  static size_t SumFloats(size_t max_rows, size_t max_inputs, size_t min_group) {
    return max_rows * (max_inputs / min_group);
  }

 private:
  // A piece of a product: outputs [first, last) in panels or rows of W, rows [row, row + rows).
  struct Task {
    const Product* product;
    uint32_t first, last;
    uint32_t row, rows;
  };
  void AddTasks(const Product& product, size_t rows);

  const kernels::KernelTable& kernels_;
  ThreadPool& threads_;
  std::vector<float> sums_;
  std::vector<Task> tasks_;
};

}  // namespace slotstream::model
