// Interleaved measurement: every figure of a run is the median over rounds that alternate with all
// the others', so that a ratio compares things measured in the same minutes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/quiet_cores.h"

namespace slotstream::bench {

// One thing to time.
struct Measurement {
  std::string key;  // unique in a run
  int threads = 1;
  // Does it once and returns the seconds it took; 0 or less when it failed.
  std::function<double()> seconds;
};

struct Timing {
  std::optional<double> median;  // seconds; absent if no round counted
  int rounds = 0;
  int counted = 0;
};

using Timings = std::map<std::string, Timing>;

// Median of `values`; absent if there are none.
std::optional<double> Median(std::vector<double> values);

struct RoundOptions {
  int rounds = 7;
  // A round repeats its measurement for at least so long and takes the mean.
  double min_seconds = 0.05;
};

// Runs short measurements through Google Benchmark: each is registered, repeated `rounds` times in
// random interleaved order, and reduced to the median of the rounds that count. Once a process.
Timings RunInterleaved(const std::vector<Measurement>& measurements, const RoundOptions& options,
                       QuietCores& cores);

}  // namespace slotstream::bench
