// Products of panels as one step of the model does them, to be timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "bench/weight_buffer.h"
#include "kernels/kernels.h"

namespace slotstream::bench {

// Of all panels of the true model.
inline constexpr uint32_t kGroup = 64;

// Matrices [n, k] of one shape, and the rows of activations each multiplies.
struct ProductCase {
  std::string name;
  uint32_t n = 0;
  uint32_t k = 0;
  std::vector<uint32_t> rows;  // per matrix; all equal where they share their input
  bool shared_input = false;   // all matrices take the same rows
  // Of a mixture of experts: each of `tokens` rows goes to `chosen` matrices. Else 0.
  uint32_t tokens = 0;
  uint32_t chosen = 0;
  uint32_t group = kGroup;  // quantization group

  size_t total_rows() const;  // multiplied, of all matrices
  double weight_bytes() const;
  // A multiplication and an addition are two.
  double operations() const;
};

// One decoded row through `count` matrices.
ProductCase OneRow(std::string name, uint32_t n, uint32_t k, uint32_t count, bool shared_input);
// `rows` rows through one matrix.
ProductCase ManyRows(std::string name, uint32_t n, uint32_t k, uint32_t rows);
// `tokens` rows that choose `chosen` of `experts` matrices each, at random, the same every time.
ProductCase Routed(std::string name, uint32_t n, uint32_t k, uint32_t experts, uint32_t chosen,
                   uint32_t tokens);

// A case with its inputs and outputs, ready to run.
class Products {
 public:
  // Everything passed must outlive it.
  Products(const ProductCase& product_case, const kernels::KernelTable& table,
           kernels::ComputeMode mode, WeightBuffer& weights, ThreadPool& threads);

  // Prepares the rows and multiplies them with weights that no cache holds. Returns the seconds.
  double Run();

 private:
  struct Task {
    uint32_t matrix;
    uint32_t first, last;  // panels
    size_t input;          // first row of the inputs
    size_t output;         // first row of the outputs
    uint32_t rows;
  };
  void AddTasks();

  const ProductCase& case_;
  const kernels::PanelKernels& kernels_;
  WeightBuffer& weights_;
  ThreadPool& threads_;
  checkpoint::PanelShape shape_;
  std::vector<float> x_;             // [input rows, k]
  std::vector<std::byte> prepared_;  // [input rows, stride]
  size_t stride_;
  size_t input_rows_;
  std::vector<float> y_;  // [output rows, n]
  std::vector<Task> tasks_;
};

// A bf16 product [n, k] of one row, its outputs split as the model splits them.
class Bf16Product {
 public:
  Bf16Product(uint32_t n, uint32_t k, const kernels::KernelTable& kernels, WeightBuffer& weights,
              ThreadPool& threads);
  // Multiplies with weights that no cache holds. Returns the seconds.
  double Run();

 private:
  uint32_t n_, k_;
  const kernels::KernelTable& kernels_;
  WeightBuffer& weights_;
  ThreadPool& threads_;
  std::vector<float> x_, y_;
};

}  // namespace slotstream::bench
