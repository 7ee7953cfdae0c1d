#include "model/products.h"

#include <algorithm>
#include <vector>

namespace slotstream::model {
namespace {

using checkpoint::Bf16Matrix;
using checkpoint::PanelMatrix;

// bf16 outputs per task: 8 rows of 2,560 inputs are 40 KB, about a first-level cache.
constexpr uint32_t kBf16OutputsPerTask = 8;

size_t GroupOf(const Product& product) {
  const auto* matrix = std::get_if<PanelMatrix>(&product.weight);
  return matrix == nullptr ? 0 : matrix->shape.group;
}

}  // namespace

PreparedRows Compute::Prepare(ConstRows x, size_t k, size_t group, size_t rows) {
  const size_t stride = kernels::PreparedBytes(mode_, k, group);
  ForRows(rows,
          [&](size_t r) { panels().prepare(x.row(r), k, group, scratch_.data() + r * stride); });
  return {scratch_.data(), stride};
}

void Compute::AddTasks(const Product& product, size_t rows) {
  uint32_t outputs, step, tile;
  if (const auto* matrix = std::get_if<PanelMatrix>(&product.weight)) {
    outputs = matrix->shape.panels();
    const kernels::PanelTask task = panels().TaskFor(outputs, rows, threads_.threads());
    step = task.panels;
    tile = task.rows;
  } else {
    outputs = std::get<Bf16Matrix>(product.weight).n;
    step = kBf16OutputsPerTask;
    tile = panels().tile_rows;
  }
  // Row by row of tiles: a tile's inputs stay in the cache while all the weights pass by.
  for (uint32_t row = 0; row < rows; row += tile) {
    const uint32_t count = std::min(tile, static_cast<uint32_t>(rows) - row);
    for (uint32_t first = 0; first < outputs; first += step) {
      tasks_.push_back({&product, first, std::min(first + step, outputs), row, count});
    }
  }
}

void Compute::Run(ConstRows x, size_t k, size_t rows, std::initializer_list<Product> products) {
  // One loop per group size; bf16 products, which take x as it is, ride along with the first.
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
    const PreparedRows prepared =
        group == 0 ? PreparedRows{nullptr, 0} : Prepare(x, k, group, rows);
    threads_.ParallelFor(tasks_.size(), [&](size_t i) {
      const Task& task = tasks_[i];
      const MutableRows out{task.product->y.row(task.row), task.product->y.stride};
      if (const auto* matrix = std::get_if<PanelMatrix>(&task.product->weight)) {
        panels().product(matrix->data, matrix->shape, task.first, task.last,
                         {prepared.row(task.row), prepared.stride}, task.rows, out);
      } else {
        const auto& bf16 = std::get<Bf16Matrix>(task.product->weight);
        kernels_.bf16_product(bf16.data, k, task.first, task.last, {x.row(task.row), x.stride},
                              task.rows, out);
      }
    });
    if (next_group == 0) return;
    group = next_group;
  }
}

}  // namespace slotstream::model
