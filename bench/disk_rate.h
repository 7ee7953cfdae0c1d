// What the disk gives for reads of the very sizes and places that the engine asks for.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "io/backend.h"

namespace slotstream::bench {

// Bytes a second of random expert records through `backend`, `in_flight` at once, for about
// `seconds`.
Result<double> MeasureRecordReads(const checkpoint::ExpertFormat& format,
                                  std::unique_ptr<io::ReadBackend> backend, uint32_t in_flight,
                                  double seconds);

// Rows a second: `count` random n-gram rows, each on a page of its own, `in_flight` at once.
Result<double> MeasureRowReads(const checkpoint::NgramFormat& format, uint32_t in_flight,
                               uint32_t count);

// The same rows through an NgramStore with an empty cache.
Result<double> MeasureNgramStore(const checkpoint::NgramFormat& format, uint32_t count);

}  // namespace slotstream::bench
