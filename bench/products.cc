#include "bench/products.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "base/clock.h"

namespace slotstream::bench {
namespace {

// As model/products.cc splits its loops.
constexpr uint32_t kBf16OutputsPerTask = 8;

std::vector<float> RandomRows(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

double SecondsSince(uint64_t start) {
  return static_cast<double>(Clock::Steady().NowNanos() - start) * 1e-9;
}

}  // namespace

size_t ProductCase::total_rows() const {
  return std::accumulate(rows.begin(), rows.end(), size_t{0});
}

double ProductCase::weight_bytes() const {
  const auto used = std::count_if(rows.begin(), rows.end(), [](uint32_t r) { return r > 0; });
  return static_cast<double>(checkpoint::PanelShape{n, k, group}.bytes()) *
         static_cast<double>(used);
}

double ProductCase::operations() const { return 2.0 * n * k * static_cast<double>(total_rows()); }

ProductCase OneRow(std::string name, uint32_t n, uint32_t k, uint32_t count, bool shared_input) {
  return {std::move(name), n, k, std::vector<uint32_t>(count, 1), shared_input};
}

ProductCase ManyRows(std::string name, uint32_t n, uint32_t k, uint32_t rows) {
  return {std::move(name), n, k, {rows}, true};
}

ProductCase Routed(std::string name, uint32_t n, uint32_t k, uint32_t experts, uint32_t chosen,
                   uint32_t tokens) {
  ProductCase routed{std::move(name), n, k, std::vector<uint32_t>(experts), false, tokens, chosen};
  std::mt19937 random(1);
  std::vector<uint32_t> order(experts);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t token = 0; token < tokens; ++token) {
    std::shuffle(order.begin(), order.end(), random);
    for (uint32_t i = 0; i < chosen; ++i) ++routed.rows[order[i]];
  }
  return routed;
}

Products::Products(const ProductCase& product_case, const kernels::KernelTable& table,
                   kernels::ComputeMode mode, WeightBuffer& weights, ThreadPool& threads)
    : case_(product_case),
      kernels_(table.panel(mode)),
      weights_(weights),
      threads_(threads),
      shape_{case_.n, case_.k, case_.group},
      stride_(kernels::PreparedBytes(mode, case_.k, case_.group)),
      input_rows_(case_.shared_input ? case_.rows[0] : case_.total_rows()) {
  x_ = RandomRows(input_rows_ * case_.k);
  // Room to start at a cache line.
  prepared_.resize(input_rows_ * stride_ + 64);
  y_.resize(case_.total_rows() * case_.n);
  AddTasks();
}

void Products::AddTasks() {
  // As the model cuts up its loops.
  const uint32_t most_rows = *std::max_element(case_.rows.begin(), case_.rows.end());
  const kernels::PanelTask task =
      kernels_.TaskFor(case_.rows.size() * shape_.panels(), most_rows, threads_.threads());
  size_t output = 0;
  for (uint32_t matrix = 0; matrix < case_.rows.size(); ++matrix) {
    const uint32_t rows = case_.rows[matrix];
    for (uint32_t row = 0; row < rows; row += task.rows) {
      for (uint32_t panel = 0; panel < shape_.panels(); panel += task.panels) {
        tasks_.push_back({matrix, panel, std::min(panel + task.panels, shape_.panels()),
                          (case_.shared_input ? 0 : output) + row, output + row,
                          std::min(task.rows, rows - row)});
      }
    }
    output += rows;
  }
}

double Products::Run() {
  const size_t matrix_bytes = shape_.bytes();
  const std::byte* weights = weights_.Next(matrix_bytes * case_.rows.size());
  auto* aligned = reinterpret_cast<std::byte*>(
      AlignUp(reinterpret_cast<uintptr_t>(prepared_.data()), size_t{64}));
  const uint64_t start = Clock::Steady().NowNanos();
  threads_.ParallelFor(input_rows_, [&](size_t r) {
    kernels_.prepare(x_.data() + r * case_.k, case_.k, case_.group, aligned + r * stride_);
  });
  threads_.ParallelFor(tasks_.size(), [&](size_t i) {
    const Task& task = tasks_[i];
    kernels_.product(weights + task.matrix * matrix_bytes, shape_, task.first, task.last,
                     {aligned + task.input * stride_, stride_}, task.rows,
                     {y_.data() + task.output * case_.n, case_.n});
  });
  return SecondsSince(start);
}

Bf16Product::Bf16Product(uint32_t n, uint32_t k, const kernels::KernelTable& kernels,
                         WeightBuffer& weights, ThreadPool& threads)
    : n_(n),
      k_(k),
      kernels_(kernels),
      weights_(weights),
      threads_(threads),
      x_(RandomRows(k)),
      y_(n) {}

double Bf16Product::Run() {
  const auto* matrix = reinterpret_cast<const uint16_t*>(weights_.Next(size_t{n_} * k_ * 2));
  const uint64_t start = Clock::Steady().NowNanos();
  threads_.ParallelFor((n_ + kBf16OutputsPerTask - 1) / kBf16OutputsPerTask, [&](size_t i) {
    const auto first = static_cast<uint32_t>(i) * kBf16OutputsPerTask;
    kernels_.bf16_product(matrix, k_, first, std::min(first + kBf16OutputsPerTask, n_),
                          {x_.data(), k_}, 1, {y_.data(), n_});
  });
  return SecondsSince(start);
}

}  // namespace slotstream::bench
