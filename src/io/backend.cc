#include "io/backend.h"

#include <fmt/format.h>

#include "io/thread_backend.h"
#include "io/uring_backend.h"

namespace slotstream::io {

Result<std::unique_ptr<ReadBackend>> MakeBackend(BackendKind kind, size_t depth,
                                                 std::string* note) {
  if (note != nullptr) note->clear();
  if (depth < 1 || depth > kMaxBackendDepth) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a read depth of {} is not possible; choose 1 to {}", depth, kMaxBackendDepth));
  }
  if (kind == BackendKind::kThreads) return MakeThreadBackend(depth);
  auto uring = MakeUringBackend(depth);
  if (uring || kind == BackendKind::kUring) return uring;
  if (note != nullptr) {
    *note = fmt::format("reading with threads instead of io_uring ({})", uring.error().message);
  }
  return MakeThreadBackend(depth);
}

}  // namespace slotstream::io
