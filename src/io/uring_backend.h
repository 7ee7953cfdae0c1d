// Reads through io_uring: one system call starts many, none is needed to collect them.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "io/backend.h"

namespace slotstream::io {

// Errors: kUnsupported (kernel without io_uring, or a sandbox or sysctl that forbids it),
// kResourceLimit (locked memory or descriptors), kIo. Messages say what to change.
Result<std::unique_ptr<ReadBackend>> MakeUringBackend(size_t depth);

}  // namespace slotstream::io
