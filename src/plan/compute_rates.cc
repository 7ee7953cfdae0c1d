#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/aligned_buffer.h"
#include "plan/rates.h"

namespace slotstream::plan {
namespace {

using checkpoint::PanelShape;

constexpr size_t kBatches = 4;
constexpr size_t kCacheLine = 64;
// As a prompt's passes have them: hundreds of rows through the trunk, and about ten through an
// expert (512 tokens that choose 10 of 512).
constexpr size_t kDenseRows = 192;
constexpr size_t kExpertRows = 10;
// As the model splits its loops (model/products.cc).
constexpr size_t kRowsPerTask = 96;

// Keeps sums that nobody reads.
std::atomic<uint64_t> sink;

// Weights of which the next stretch is always in no cache, if there are more than caches hold.
class Weights {
 public:
  static Result<Weights> Make(size_t bytes, ThreadPool& threads) {
    SS_ASSIGN_OR_RETURN(AlignedBuffer memory,
                        AlignedBuffer::Allocate(AlignUp(bytes, kPageSize), "weights to time"));
    // Scales and biases near 1, so that sums stay numbers.
    threads.ParallelFor(memory.size() / kPageSize, [&](size_t page) {
      auto* words = reinterpret_cast<uint16_t*>(memory.data() + page * kPageSize);
      for (size_t i = 0; i < kPageSize / sizeof(uint16_t); ++i) {
        words[i] = static_cast<uint16_t>(0x3c00u | ((page * 31 + i * 7) & 0xffu));
      }
    });
    return Weights(std::move(memory));
  }

  const std::byte* Next(size_t bytes) {
    if (next_ + bytes > memory_.size()) next_ = 0;
    return memory_.data() + std::exchange(next_, next_ + AlignUp(bytes, kCacheLine));
  }
  std::span<const std::byte> all() const { return memory_.span(); }

 private:
  explicit Weights(AlignedBuffer memory) : memory_(std::move(memory)) {}
  AlignedBuffer memory_;
  size_t next_ = 0;
};

// One shape's products: `matrices` matrices, each multiplied with `rows` rows.
class Products {
 public:
  Products(const kernels::PanelKernels& kernels, PanelShape shape, size_t matrices, size_t rows,
           Weights& weights, ThreadPool& threads)
      : kernels_(kernels),
        shape_(shape),
        matrices_(matrices),
        rows_(rows),
        weights_(weights),
        threads_(threads),
        stride_(0),
        x_(rows * shape.k, 0.25f),
        y_(matrices * rows * shape.n) {}

  void SetMode(kernels::ComputeMode mode) {
    stride_ = kernels::PreparedBytes(mode, shape_.k, shape_.group);
    prepared_.resize(rows_ * stride_ + kCacheLine);
  }
  double bytes() const { return static_cast<double>(matrices_ * shape_.bytes()); }
  double operations() const {
    return 2.0 * shape_.n * shape_.k * static_cast<double>(matrices_ * rows_);
  }

  void Run() {
    const std::byte* weights = weights_.Next(matrices_ * shape_.bytes());
    auto* prepared = reinterpret_cast<std::byte*>(
        AlignUp(reinterpret_cast<uintptr_t>(prepared_.data()), kCacheLine));
    threads_.ParallelFor(rows_, [&](size_t r) {
      kernels_.prepare(x_.data() + r * shape_.k, shape_.k, shape_.group, prepared + r * stride_);
    });
    const size_t tiles = (rows_ + kRowsPerTask - 1) / kRowsPerTask;
    threads_.ParallelFor(matrices_ * tiles * shape_.panels(), [&](size_t i) {
      const auto panel = static_cast<uint32_t>(i % shape_.panels());
      const size_t first = i / shape_.panels() % tiles * kRowsPerTask;
      const size_t matrix = i / shape_.panels() / tiles;
      kernels_.product(weights + matrix * shape_.bytes(), shape_, panel, panel + 1,
                       {prepared + first * stride_, stride_},
                       static_cast<uint32_t>(std::min(kRowsPerTask, rows_ - first)),
                       {y_.data() + (matrix * rows_ + first) * shape_.n, shape_.n});
    });
  }

 private:
  const kernels::PanelKernels& kernels_;
  PanelShape shape_;
  size_t matrices_, rows_;
  Weights& weights_;
  ThreadPool& threads_;
  size_t stride_;
  std::vector<float> x_, y_;
  std::vector<std::byte> prepared_;
};

uint64_t SumWords(std::span<const std::byte> bytes) {
  typedef uint64_t Lane __attribute__((vector_size(32), aligned(1), may_alias));
  Lane sums[4] = {};
  for (size_t at = 0; at + 128 <= bytes.size(); at += 128) {
    const auto* lanes = reinterpret_cast<const Lane*>(bytes.data() + at);
    for (int j = 0; j < 4; ++j) sums[j] += lanes[j];
  }
  const Lane sum = sums[0] + sums[1] + sums[2] + sums[3];
  return sum[0] + sum[1] + sum[2] + sum[3];
}

// `work` per second of `run`, in batches that take `seconds` altogether.
template <typename Run>
Range Time(const Clock& clock, double seconds, double work, const Run& run) {
  run();  // touches what is new
  std::vector<double> rates;
  for (size_t batch = 0; batch < kBatches; ++batch) {
    const uint64_t start = clock.NowNanos();
    double elapsed = 0;
    size_t runs = 0;
    do {
      run();
      ++runs;
      elapsed = static_cast<double>(clock.NowNanos() - start) * 1e-9;
    } while (elapsed < seconds / kBatches);
    rates.push_back(static_cast<double>(runs) * work / elapsed);
  }
  return RangeOf(rates);
}

}  // namespace

Result<ComputeRates> MeasureCompute(const checkpoint::Checkpoint& checkpoint,
                                    const kernels::KernelTable& kernels, kernels::ComputeMode mode,
                                    ThreadPool& threads, const Clock& clock, size_t memory,
                                    double seconds) {
  const checkpoint::ExpertShape& expert = checkpoint.experts().shape();
  const size_t chosen = checkpoint.config().experts_per_token;
  const size_t layer_bytes = chosen * expert.record_bytes();
  SS_ASSIGN_OR_RETURN(Weights weights, Weights::Make(std::max(memory, layer_bytes), threads));
  const kernels::PanelKernels& panels = kernels.panel(mode);
  ComputeRates rates;

  Products up(panels, expert.up, 2 * chosen, 1, weights, threads);
  Products down(panels, expert.down, chosen, 1, weights, threads);
  // Through the shapes of the trunk's largest matrices: as wide as the experts' inputs.
  Products dense(panels, {2 * expert.down.n, expert.up.k, expert.up.group}, 1, kDenseRows, weights,
                 threads);
  Products some_up(panels, expert.up, 2, kExpertRows, weights, threads);
  Products some_down(panels, expert.down, 1, kExpertRows, weights, threads);
  for (Products* products : {&up, &down, &dense, &some_up, &some_down}) products->SetMode(mode);

  const double part = seconds / 4;
  const size_t slice = weights.all().size() / static_cast<size_t>(threads.threads());
  rates.memory = Time(clock, part, static_cast<double>(slice) * threads.threads(), [&] {
    threads.ParallelFor(static_cast<size_t>(threads.threads()), [&](size_t i) {
      sink.fetch_add(SumWords(weights.all().subspan(i * slice, slice)), std::memory_order_relaxed);
    });
  });
  rates.row_weights = Time(clock, part, up.bytes() + down.bytes(), [&] {
    up.Run();
    down.Run();
  });
  rates.dense_pass = Time(clock, part, dense.operations(), [&] { dense.Run(); });
  rates.expert_pass = Time(clock, part, some_up.operations() + some_down.operations(), [&] {
    some_up.Run();
    some_down.Run();
  });
  return rates;
}

}  // namespace slotstream::plan
