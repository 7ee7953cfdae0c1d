// `slotstream-bench forecast`: what the planner says a model will do here, beside what it then
// does.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"

namespace slotstream::bench {

struct ForecastOptions {
  CommonOptions common;
  std::string directory;
  std::vector<double> memory_gb;  // sizes of the process, as --memory-gb; at least one
  double disk_gb_s = 0;           // a disk no faster than this is imitated; 0: this machine's
  size_t pass = 512;              // tokens of a pass
  size_t prompt = 1024;           // tokens of the prefill; 0: none
  size_t decode = 24;             // tokens of a round
  size_t warm = 64;               // tokens before the first round, which fill the pool
};

// A row for decoding and one for prefill of each size; `roof` is the forecast of the same minute.
Result<std::vector<Row>> MeasureForecast(const ForecastOptions& options);

}  // namespace slotstream::bench
