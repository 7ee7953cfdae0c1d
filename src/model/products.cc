#include "model/products.h"

#include <algorithm>
#include <vector>

namespace slotstream::model {
namespace {

using checkpoint::Bf16Matrix;
using checkpoint::PanelMatrix;

// Rows per task: enough to use a panel several times from the cache, few enough that a pass of a
// few hundred rows still splits when the matrix has few panels.
constexpr uint32_t kRowsPerTask = 96;
// bf16 outputs per task: 8 rows of 2,560 inputs are 40 KB, about a first-level cache.
constexpr uint32_t kBf16OutputsPerTask = 8;

size_t GroupOf(const Product& product) {
  const auto* panels = std::get_if<PanelMatrix>(&product.weight);
  return panels == nullptr ? 0 : panels->shape.group;
}

}  // namespace

Compute::Compute(const kernels::KernelTable& kernel_table, ThreadPool& thread_pool, size_t max_rows,
                 size_t max_inputs, size_t min_group)
    : kernels_(kernel_table),
      threads_(thread_pool),
      sums_(SumFloats(max_rows, max_inputs, min_group)) {}

ConstRows Compute::GroupSums(ConstRows x, size_t k, size_t group, size_t rows) {
  const size_t stride = k / group;
  if (sums_.size() < rows * stride) sums_.resize(rows * stride);
  ForRows(rows,
          [&](size_t r) { kernels_.group_sums(x.row(r), k, group, sums_.data() + r * stride); });
  return {sums_.data(), stride};
}

void Compute::AddTasks(const Product& product, size_t rows) {
  uint32_t outputs, step;
  if (const auto* panels = std::get_if<PanelMatrix>(&product.weight)) {
    outputs = panels->shape.panels();
    step = 1;
  } else {
    outputs = std::get<Bf16Matrix>(product.weight).n;
    step = kBf16OutputsPerTask;
  }
  for (uint32_t first = 0; first < outputs; first += step) {
    for (uint32_t row = 0; row < rows; row += kRowsPerTask) {
      tasks_.push_back({&product, first, std::min(first + step, outputs), row,
                        std::min(kRowsPerTask, static_cast<uint32_t>(rows) - row)});
    }
  }
}

void Compute::Run(ConstRows x, size_t k, size_t rows, std::initializer_list<Product> products) {
  // One loop per group size; bf16 products, which need no sums, ride along with the first.
  size_t group = 0;
  for (const Product& product : products) group = std::max(group, GroupOf(product));
  const size_t first_group = group;
  while (true) {
    tasks_.clear();
    size_t next_group = 0;
    for (const Product& product : products) {
      const size_t its_group = GroupOf(product);
      if (its_group == group || (its_group == 0 && group == first_group)) {
        AddTasks(product, rows);
      } else if (its_group < group) {
        next_group = std::max(next_group, its_group);
      }
    }
    const ConstRows sums = group == 0 ? ConstRows{nullptr, 0} : GroupSums(x, k, group, rows);
    threads_.ParallelFor(tasks_.size(), [&](size_t i) {
      const Task& task = tasks_[i];
      const ConstRows in{x.row(task.row), x.stride};
      const MutableRows out{task.product->y.row(task.row), task.product->y.stride};
      if (const auto* panels = std::get_if<PanelMatrix>(&task.product->weight)) {
        kernels_.panel_product(panels->data, panels->shape, task.first, task.last, in,
                               {sums.row(task.row), sums.stride}, task.rows, out);
      } else {
        const auto& bf16 = std::get<Bf16Matrix>(task.product->weight);
        kernels_.bf16_product(bf16.data, k, task.first, task.last, in, task.rows, out);
      }
    });
    if (next_group == 0) return;
    group = next_group;
  }
}

}  // namespace slotstream::model
