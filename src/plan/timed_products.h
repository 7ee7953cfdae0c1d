// Products to be timed: of rows that nobody needs with weights that nobody trained.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"

namespace slotstream::plan {

// Weights of which the next stretch is always in no cache, if there are more than caches hold.
class TimedWeights {
 public:
  static Result<TimedWeights> Make(size_t bytes, ThreadPool& threads);

  // `bytes`, at most what was made, that lie behind those of the call before.
  const std::byte* Next(size_t bytes);
  std::span<const std::byte> all() const { return memory_.span(); }

 private:
  explicit TimedWeights(AlignedBuffer memory) : memory_(std::move(memory)) {}
  AlignedBuffer memory_;
  size_t next_ = 0;
};

// One shape's products: `matrices` matrices, each multiplied with `rows` rows.
class TimedProducts {
 public:
  TimedProducts(const kernels::KernelTable& kernels, kernels::ComputeMode mode,
                const checkpoint::PanelShape& shape, size_t matrices, size_t rows,
                TimedWeights& weights, ThreadPool& threads);

  double bytes() const { return static_cast<double>(matrices_ * shape_.bytes()); }
  double operations() const {
    return 2.0 * shape_.n * shape_.k * static_cast<double>(matrices_ * rows_);
  }
  void Run();

 private:
  const kernels::PanelKernels& kernels_;
  checkpoint::PanelShape shape_;
  size_t matrices_, rows_, stride_;
  TimedWeights& weights_;
  ThreadPool& threads_;
  std::vector<float> x_, y_;
  std::vector<std::byte> prepared_;
};

// Rows of the trunk's matrices, as passes of a prompt have them, and the widest of these matrices:
// as wide as the experts' inputs.
inline constexpr size_t kDenseRows = 192;
inline checkpoint::PanelShape DenseShape(const checkpoint::ExpertShape& expert) {
  return {2 * expert.down.n, expert.up.k, expert.up.group};
}

}  // namespace slotstream::plan
