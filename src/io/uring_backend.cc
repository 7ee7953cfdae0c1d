#include "io/uring_backend.h"

#include <fmt/format.h>
#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <system_error>
#include <thread>

namespace slotstream::io {
namespace {

class UringBackend : public ReadBackend {
 public:
  explicit UringBackend(size_t depth) : depth_(depth) {}
  ~UringBackend() override {
    if (ring_ready_) io_uring_queue_exit(&ring_);
  }
  UringBackend(const UringBackend&) = delete;
  UringBackend& operator=(const UringBackend&) = delete;

  // 0 or -errno. No setup flags: those that save interrupts (SINGLE_ISSUER, DEFER_TASKRUN) bind the
  // ring to one thread.
  int Open() {
    int result = io_uring_queue_init(static_cast<unsigned>(depth_), &ring_, 0);
    if (result != 0) return result;
    ring_ready_ = true;
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    bool can_read = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ);
    io_uring_free_probe(probe);
    return can_read ? 0 : -ENOSYS;
  }

  std::string_view name() const override { return "io_uring"; }
  size_t depth() const override { return depth_; }
  Status Start(std::span<const BackendRead> reads) override;
  size_t Reap(std::span<BackendResult> out, bool wait) override;
  void WaitReady() override;

 private:
  size_t TakeReady(std::span<BackendResult> out);

  size_t depth_;
  io_uring ring_{};
  bool ring_ready_ = false;
  bool broken_ = false;                // the kernel refused a submission for good
  std::atomic<size_t> in_flight_ = 0;  // in the kernel
  std::deque<BackendResult> refused_;  // results of reads that the kernel did not take
  std::atomic<bool> any_refused_ = false;
};

Status UringBackend::Start(std::span<const BackendRead> reads) {
  if (broken_ || io_uring_sq_space_left(&ring_) < reads.size()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("io_uring cannot start {} reads: {}", reads.size(),
                            broken_ ? "an earlier submission failed" : "its queue is full"));
  }
  for (const BackendRead& read : reads) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, read.file->fd(), read.destination, read.length, read.offset);
    io_uring_sqe_set_data64(entry, read.id);
  }
  size_t submitted = 0;
  while (submitted < reads.size()) {
    int result = io_uring_submit(&ring_);
    if (result > 0) {
      submitted += static_cast<size_t>(result);
      in_flight_ += static_cast<size_t>(result);
    } else if (result == 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY) {
      // The kernel is short of memory for the moment; what is in flight goes on meanwhile.
      std::this_thread::yield();
    } else {
      // The entries left in the ring must never be submitted: their memory may be gone by then.
      broken_ = true;
      if (submitted == 0) {
        return Fail(ErrorCode::kIo, fmt::format("io_uring refused to start reads: {}",
                                                std::generic_category().message(-result)));
      }
      for (const BackendRead& read : reads.subspan(submitted)) {
        refused_.push_back({read.id, result});
      }
      any_refused_ = true;
      break;
    }
  }
  return {};
}

size_t UringBackend::Reap(std::span<BackendResult> out, bool wait) {
  size_t count = TakeReady(out);
  while (count == 0 && wait && in_flight_ > 0) {
    WaitReady();
    count = TakeReady(out);
  }
  return count;
}

// Start fills one of the ring's two queues and this looks at the other, so both may run at once.
void UringBackend::WaitReady() {
  io_uring_cqe* entry = nullptr;
  while (in_flight_ > 0 && !any_refused_) {
    const int result = io_uring_wait_cqe(&ring_, &entry);
    if (result == 0) return;
    // Results still appear in shared memory when the kernel refuses to wait for them.
    if (result != -EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

size_t UringBackend::TakeReady(std::span<BackendResult> out) {
  size_t count = 0;
  while (count < out.size() && !refused_.empty()) {
    out[count++] = refused_.front();
    refused_.pop_front();
  }
  any_refused_ = !refused_.empty();
  io_uring_cqe* entry = nullptr;
  while (count < out.size() && in_flight_ > 0 && io_uring_peek_cqe(&ring_, &entry) == 0) {
    out[count++] = {io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    --in_flight_;
  }
  return count;
}

Error SetupError(int error_number, size_t depth) {
  std::string reason = std::generic_category().message(error_number);
  switch (error_number) {
    case ENOSYS:
      return {ErrorCode::kUnsupported,
              fmt::format("no io_uring: {}; it needs Linux 5.6 or newer", reason)};
    case EPERM:
    case EACCES:
      return {ErrorCode::kUnsupported,
              fmt::format("io_uring is forbidden: {}; see sysctl kernel.io_uring_disabled and the "
                          "container's seccomp profile",
                          reason)};
    case ENOMEM:
      return {ErrorCode::kResourceLimit,
              fmt::format("no memory for an io_uring of depth {}: {}; raise the limit of locked "
                          "memory (ulimit -l)",
                          depth, reason)};
    case EMFILE:
    case ENFILE:
      return {ErrorCode::kResourceLimit,
              fmt::format("no descriptor for io_uring: {}; raise the limit of open files (ulimit "
                          "-n)",
                          reason)};
    default:
      return {ErrorCode::kIo,
              fmt::format("cannot set up an io_uring of depth {}: {}", depth, reason)};
  }
}

}  // namespace

Result<std::unique_ptr<ReadBackend>> MakeUringBackend(size_t depth) {
  auto backend = std::make_unique<UringBackend>(depth);
  int result = backend->Open();
  if (result != 0) return std::unexpected(SetupError(-result, depth));
  return backend;
}

}  // namespace slotstream::io
