#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "plan/rates.h"
#include "plan/timed_products.h"

namespace slotstream::plan {
namespace {

constexpr size_t kBatches = 4;

// Keeps sums that nobody reads.
std::atomic<uint64_t> sink;

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
  SS_ASSIGN_OR_RETURN(TimedWeights weights,
                      TimedWeights::Make(std::max(memory, layer_bytes), threads));
  ComputeRates rates;
  const auto products = [&](const checkpoint::PanelShape& shape, size_t matrices, size_t rows) {
    return TimedProducts(kernels, mode, shape, matrices, rows, weights, threads);
  };
  TimedProducts up = products(expert.up, 2 * chosen, 1);
  TimedProducts down = products(expert.down, chosen, 1);
  TimedProducts dense = products(DenseShape(expert), 1, kDenseRows);
  TimedProducts some_up = products(expert.up, 2, kExpertPassRows);
  TimedProducts some_down = products(expert.down, 1, kExpertPassRows);

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
