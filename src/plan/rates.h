// How fast this machine is: what forecasts are made from.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "io/read_queue.h"
#include "kernels/kernels.h"

namespace slotstream::plan {

// A figure with what it may be at worst and at best; low <= typical <= high.
struct Range {
  double low = 0;
  double typical = 0;
  double high = 0;
};

// Of one file of expert records on one disk.
struct DiskRates {
  Range single;                // bytes/s of one record read alone
  Range full;                  // bytes/s with many records in flight
  Range ordered;               // bytes/s of a layer's records after each other, many in flight
  double rows_per_second = 0;  // n-gram rows with many in flight; 0: the model has none
  double core_seconds = 0;     // of one core, that the arithmetic loses per byte read beside it
};

// How many rows share an expert where its rate in passes is measured: about as many as when 512
// tokens choose 10 of 512.
inline constexpr size_t kExpertPassRows = 10;

// Of these processors in one compute mode.
struct ComputeRates {
  Range memory;       // bytes/s read by all threads together
  Range row_weights;  // bytes/s of weights when one row meets experts
  Range dense_pass;   // operations/s of many rows with one matrix; two per weight
  Range expert_pass;  // operations/s of experts, each with kExpertPassRows rows
};

// From the rates of several batches of samples: the least, the mean and the most. The mean is that
// of the time, which is what a run of many samples sees. Not empty, all above 0.
Range RangeOf(const std::vector<double>& rates);

// Reads expert records: random ones as replies need them, one at a time and then many, and layers
// from end to end as prompts need them, each a third of `seconds` long but at least four records;
// and then n-gram rows. `seed` picks them: one that
// changes finds no cache of what was read before. The records are checked, so that an error of
// the disk is an error here. Memory: sixteen records.
Result<DiskRates> MeasureDisk(const checkpoint::Checkpoint& checkpoint, io::ReadQueue& queue,
                              const Clock& clock, double seconds, uint64_t seed);

// How many seconds of one core a byte that is read takes from the arithmetic of all threads beside
// it: the kernel's part, the checksum, memory's, and in a virtual machine what the host takes from
// its cores for its disk. Products of a pass are timed with and without reads, in turn, for about
// `seconds` on `memory` bytes of weights.
Result<double> MeasureReadCost(const checkpoint::Checkpoint& checkpoint, io::ReadQueue& queue,
                               const kernels::KernelTable& kernels, kernels::ComputeMode mode,
                               ThreadPool& threads, const Clock& clock, size_t memory,
                               double seconds);

// A disk that reads `bytes_per_second`, for simulations. A record read alone takes 0.1 ms longer
// than that, an NVMe drive's access time; rows are as many as at most half a million a second.
DiskRates AssumedDisk(double bytes_per_second, size_t record_bytes);

// Times the products that decoding and prefill consist of, on `memory` bytes of weights (at least
// some megabytes, best more than any cache), for about `seconds` altogether.
Result<ComputeRates> MeasureCompute(const checkpoint::Checkpoint& checkpoint,
                                    const kernels::KernelTable& kernels, kernels::ComputeMode mode,
                                    ThreadPool& threads, const Clock& clock, size_t memory,
                                    double seconds);

}  // namespace slotstream::plan
