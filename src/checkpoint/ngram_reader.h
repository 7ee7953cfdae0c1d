// Runs of n-gram rows from the shards of an original checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "checkpoint/inventory.h"
#include "io/read_queue.h"

namespace slotstream::checkpoint {

// Reads rows `begin` to the table's end in runs of `run` rows (the last may be shorter), in order.
// `consume` gets each run's rows one after another, each as NgramFormat::Finish gives it. Memory:
// a few runs. The queue must be idle. Errors: those of the reads and of `consume`.
Status ReadNgramRuns(const TensorIndex& index, const NgramTableSource& table, uint64_t begin,
                     uint64_t run, io::ReadQueue& queue,
                     const std::function<Status(std::span<const std::byte> rows)>& consume);

}  // namespace slotstream::checkpoint
