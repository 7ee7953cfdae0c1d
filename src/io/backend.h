// The raw seam to the system's reads, below ReadQueue: what a backend must do is little, so that it
// can be faked whole. Everything a read may suffer (short reads, interruptions, errors, retries) is
// ReadQueue's work, not the backend's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/file.h"

namespace slotstream::io {

// One positional read. `id` is the caller's and comes back in the result; ids in flight differ.
struct BackendRead {
  uint64_t id = 0;
  const File* file = nullptr;
  uint64_t offset = 0;  // bytes from the start of the file
  std::byte* destination = nullptr;
  uint32_t length = 0;  // bytes
};

struct BackendResult {
  uint64_t id = 0;
  int64_t result = 0;  // bytes read as pread counts them (0: end of file), or -errno
};

// One thread at a time calls a backend, WaitReady apart; which one may change.
class ReadBackend {
 public:
  // Nothing may be in flight.
  virtual ~ReadBackend() = default;

  // For messages and statistics, e.g. "io_uring".
  virtual std::string_view name() const = 0;

  // The most reads that may be in flight, at least 1, counted from Start until Reap returns their
  // result.
  virtual size_t depth() const = 0;

  // Starts `reads`, all or none: on an error no destination will be touched and no result comes.
  // Files and destinations must live until the results are reaped. The caller keeps to depth().
  virtual Status Start(std::span<const BackendRead> reads) = 0;

  // Moves results to `out` (not empty), in any order, and returns how many. With `wait`, blocks
  // until there is at least one, unless nothing is in flight; without, returns 0 when none is
  // ready.
  virtual size_t Reap(std::span<BackendResult> out, bool wait) = 0;

  // Blocks until Reap would return a result, or nothing is in flight. The one call that may run
  // beside Start, on the thread that alone reaps: so another thread can start reads meanwhile.
  virtual void WaitReady() = 0;
};

enum class BackendKind {
  kAuto,     // io_uring where the system has it, otherwise threads
  kUring,    // io_uring or an error
  kThreads,  // threads that call pread
};

// The backend of `kind` with `depth` reads in flight (1 to kMaxBackendDepth). When `note` is given
// it receives what an operator should know, e.g. why kAuto fell back to threads; otherwise it
// becomes empty. Errors: kInvalidArgument (depth), kUnsupported, kResourceLimit, kIo.
Result<std::unique_ptr<ReadBackend>> MakeBackend(BackendKind kind, size_t depth, std::string* note);

// Disks reach their full rate far below this; more only costs kernel memory.
inline constexpr size_t kMaxBackendDepth = 4096;

}  // namespace slotstream::io
