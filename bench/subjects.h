// Collects what a run of the kernels measures, times it interleaved, and makes the rows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/report.h"
#include "bench/roofs.h"
#include "bench/rounds.h"

namespace slotstream::bench {

// The group of the rows that say what the machine can do.
inline constexpr const char* kRoofGroup = "roof";

// A pool per number of threads.
class ThreadPools {
 public:
  ThreadPool& of(int threads) {
    std::unique_ptr<ThreadPool>& pool = pools_[threads];
    if (!pool) pool = std::make_unique<ThreadPool>(threads);
    return *pool;
  }

 private:
  std::map<int, std::unique_ptr<ThreadPool>> pools_;
};

// A row to be: what it measures, and the keys of the measurements that it is compared with.
struct Subject {
  Row row;               // its value, roof and peer are filled in at the end
  double work = 0;       // bytes or operations of one run; the value is 1e-9 work per second
  std::string key = {};  // of its measurement
  std::vector<std::string> roof_keys = {};  // of other subjects; the highest is the roof
  double roof_scale = 1;
  std::vector<std::pair<std::string, std::string>> peers = {};  // by weights' type: keys
};

class Subjects {
 public:
  Subjects(WeightBuffer& weights, ThreadPools& pools) : weights_(weights), pools_(pools) {}

  // Add roofs unless they are there, and return their keys.
  std::vector<std::string> AddMemoryRoof(int threads);
  // Empty for instructions without a known peak.
  std::vector<std::string> AddPeak(std::string_view instructions, bool integer, int threads);

  void Add(Subject subject, std::function<double()> seconds);

  // Measures everything. Roofs come first, the others in the order of their addition.
  std::vector<Row> Run(const RoundOptions& options, QuietCores& cores);

 private:
  bool Has(const std::string& key) const;

  WeightBuffer& weights_;
  ThreadPools& pools_;
  std::vector<Subject> roofs_, others_;
  std::vector<Measurement> measurements_;
};

}  // namespace slotstream::bench
