#include "bench/rounds.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>

namespace slotstream::bench {
namespace {

constexpr const char* kCounts = "counts";

// Google Benchmark's own tables have neither medians over chosen rounds nor roofs nor peers; it
// registers, times, repeats and interleaves, and hands every single round to this.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      Samples& samples = samples_[run.run_name.function_name];
      ++samples.rounds;
      const auto counts = run.counters.find(kCounts);
      if (run.error_occurred || counts == run.counters.end() || counts->second.value == 0) continue;
      samples.seconds.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }

  Timings Take() const {
    Timings timings;
    for (const auto& [key, samples] : samples_) {
      timings[key] = {Median(samples.seconds), samples.rounds,
                      static_cast<int>(samples.seconds.size())};
    }
    return timings;
  }

 private:
  struct Samples {
    std::vector<double> seconds;
    int rounds = 0;
  };
  std::map<std::string, Samples> samples_;
};

void RunOne(benchmark::State& state, const Measurement& measurement, QuietCores& cores) {
  QuietWindow window(cores, measurement.threads);
  for (auto _ : state) {
    const double seconds = measurement.seconds();
    if (!(seconds > 0)) {
      state.SkipWithError("failed");
      break;
    }
    state.SetIterationTime(seconds);
  }
  state.counters[kCounts] = window.Counts() ? 1 : 0;
}

}  // namespace

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Timings RunInterleaved(const std::vector<Measurement>& measurements, const RoundOptions& options,
                       QuietCores& cores) {
  std::vector<std::string> words = {"slotstream-bench",
                                    "--benchmark_enable_random_interleaving=true",
                                    fmt::format("--benchmark_repetitions={}", options.rounds)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  for (const Measurement& measurement : measurements) {
    benchmark::RegisterBenchmark(
        measurement.key.c_str(),
        [&measurement, &cores](benchmark::State& state) { RunOne(state, measurement, cores); })
        ->UseManualTime()
        ->MinTime(options.min_seconds);
  }
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  benchmark::ClearRegisteredBenchmarks();
  return collector.Take();
}

}  // namespace slotstream::bench
