// Reads through a few threads that call pread, for systems without io_uring.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "io/backend.h"

namespace slotstream::io {

// `depth` reads may be in flight; at most 16 of them are at the disk at a time (one a thread), the
// rest wait their turn. Errors: kResourceLimit when no thread can be started.
Result<std::unique_ptr<ReadBackend>> MakeThreadBackend(size_t depth);

}  // namespace slotstream::io
