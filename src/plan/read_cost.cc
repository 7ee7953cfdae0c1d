#include <algorithm>
#include <functional>
#include <thread>

#include "plan/disk_reads.h"
#include "plan/rates.h"
#include "plan/timed_products.h"

namespace slotstream::plan {
namespace {

// Turns with and without reads, so that a neighbour's load meets both.
constexpr size_t kTurns = 4;

struct Work {
  double operations = 0, seconds = 0;
  double rate() const { return operations / seconds; }
};

}  // namespace

Result<double> MeasureReadCost(const checkpoint::Checkpoint& checkpoint, io::ReadQueue& queue,
                               const kernels::KernelTable& kernels, kernels::ComputeMode mode,
                               ThreadPool& threads, const Clock& clock, size_t memory,
                               double seconds) {
  const checkpoint::ExpertFormat& format = checkpoint.experts();
  const checkpoint::PanelShape shape = DenseShape(format.shape());
  SS_ASSIGN_OR_RETURN(TimedWeights weights,
                      TimedWeights::Make(std::max(memory, shape.bytes()), threads));
  TimedProducts products(kernels, mode, shape, 1, kDenseRows, weights, threads);
  products.Run();  // touches what is new
  const double turn = seconds / (2 * kTurns);
  const auto compute = [&](Work& work) {
    const uint64_t start = clock.NowNanos();
    double elapsed = 0;
    do {
      products.Run();
      work.operations += products.operations();
      elapsed = static_cast<double>(clock.NowNanos() - start) * 1e-9;
    } while (elapsed < turn);
    work.seconds += elapsed;
  };
  DiskReader reader(queue, clock);
  RecordsInOrder next(format, 0);
  Work alone, beside;
  std::vector<double> read_rates;
  for (size_t i = 0; i < kTurns; ++i) {
    compute(alone);
    Result<std::vector<double>> read;
    {
      const std::jthread reading(
          [&] { read = ReadRecords(format, reader, kRecordsInFlight, 1, turn, std::ref(next)); });
      compute(beside);
    }
    if (!read) return std::unexpected(std::move(read).error());
    read_rates.push_back(read->front());
  }
  const double lost = std::max(0.0, 1 - beside.rate() / alone.rate());
  return lost * threads.threads() / RangeOf(read_rates).typical;
}

}  // namespace slotstream::plan
