#include "plan/timed_products.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace slotstream::plan {
namespace {

constexpr size_t kCacheLine = 64;

}  // namespace

Result<TimedWeights> TimedWeights::Make(size_t bytes, ThreadPool& threads) {
  SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                      AlignedBuffer::Allocate(AlignUp(bytes, kPageSize), "weights to time"));
  // Scales and biases near 1, so that sums stay numbers.
  threads.ParallelFor(memory.size() / kPageSize, [&](size_t page) {
    auto* words = reinterpret_cast<uint16_t*>(memory.data() + page * kPageSize);
    for (size_t i = 0; i < kPageSize / sizeof(uint16_t); ++i) {
      words[i] = static_cast<uint16_t>(0x3c00u | ((page * 31 + i * 7) & 0xffu));
    }
  });
  return TimedWeights(std::move(memory));
}

const std::byte* TimedWeights::Next(size_t bytes) {
  if (next_ + bytes > memory_.size()) next_ = 0;
  return memory_.data() + std::exchange(next_, next_ + AlignUp(bytes, kCacheLine));
}

TimedProducts::TimedProducts(const kernels::KernelTable& kernels, kernels::ComputeMode mode,
                             const checkpoint::PanelShape& shape, size_t matrices, size_t rows,
                             TimedWeights& weights, ThreadPool& threads)
    : kernels_(kernels.panel(mode)),
      shape_(shape),
      matrices_(matrices),
      rows_(rows),
      stride_(kernels::PreparedBytes(mode, shape.k, shape.group)),
      weights_(weights),
      threads_(threads),
      x_(rows * shape.k, 0.25f),
      y_(matrices * rows * shape.n),
      prepared_(rows * stride_ + kCacheLine) {}

void TimedProducts::Run() {
  const std::byte* weights = weights_.Next(matrices_ * shape_.bytes());
  auto* prepared = reinterpret_cast<std::byte*>(
      AlignUp(reinterpret_cast<uintptr_t>(prepared_.data()), kCacheLine));
  threads_.ParallelFor(rows_, [&](size_t r) {
    kernels_.prepare(x_.data() + r * shape_.k, shape_.k, shape_.group, prepared + r * stride_);
  });
  const size_t panels = shape_.panels();
  const kernels::PanelTask task = kernels_.TaskFor(matrices_ * panels, rows_, threads_.threads());
  const size_t tiles = (rows_ + task.rows - 1) / task.rows;
  const size_t steps = (panels + task.panels - 1) / task.panels;
  threads_.ParallelFor(matrices_ * tiles * steps, [&](size_t i) {
    const size_t panel = i % steps * task.panels;
    const size_t row = i / steps % tiles * task.rows;
    const size_t matrix = i / steps / tiles;
    kernels_.product(weights + matrix * shape_.bytes(), shape_, static_cast<uint32_t>(panel),
                     static_cast<uint32_t>(std::min(panel + task.panels, panels)),
                     {prepared + row * stride_, stride_}, std::min<size_t>(task.rows, rows_ - row),
                     {y_.data() + (matrix * rows_ + row) * shape_.n, shape_.n});
  });
}

}  // namespace slotstream::plan
