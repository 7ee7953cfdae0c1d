#include "io/thread_backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace slotstream::io {
namespace {

// Enough reads at once for a disk to reach its full rate with the megabyte reads of experts; every
// further thread only costs a stack.
constexpr size_t kMaxThreads = 16;

class ThreadBackend : public ReadBackend {
 public:
  explicit ThreadBackend(size_t depth) : depth_(depth) {}
  ~ThreadBackend() override;
  ThreadBackend(const ThreadBackend&) = delete;
  ThreadBackend& operator=(const ThreadBackend&) = delete;

  Status StartThreads();

  std::string_view name() const override { return "threads"; }
  size_t depth() const override { return depth_; }
  Status Start(std::span<const BackendRead> reads) override;
  size_t Reap(std::span<BackendResult> out, bool wait) override;
  void WaitReady() override;

 private:
  void Work();

  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable work_there_;
  std::condition_variable result_there_;
  std::deque<BackendRead> waiting_;
  std::deque<BackendResult> results_;
  size_t in_flight_ = 0;  // started and not reaped
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

ThreadBackend::~ThreadBackend() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_there_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status ThreadBackend::StartThreads() {
  size_t wanted = std::min(depth_, kMaxThreads);
  try {
    while (threads_.size() < wanted) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error& error) {
    if (threads_.empty()) {
      return Fail(ErrorCode::kResourceLimit,
                  fmt::format("cannot start a thread for reads: {}; raise the limit of processes "
                              "(ulimit -u)",
                              error.what()));
    }
  }
  return {};
}

Status ThreadBackend::Start(std::span<const BackendRead> reads) {
  {
    std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), reads.begin(), reads.end());
    in_flight_ += reads.size();
  }
  size_t sleepers = std::min(reads.size(), threads_.size());
  for (size_t i = 0; i < sleepers; ++i) work_there_.notify_one();
  return {};
}

size_t ThreadBackend::Reap(std::span<BackendResult> out, bool wait) {
  std::unique_lock lock(mutex_);
  if (wait && in_flight_ > 0) result_there_.wait(lock, [this] { return !results_.empty(); });
  size_t count = std::min(out.size(), results_.size());
  std::copy_n(results_.begin(), count, out.begin());
  results_.erase(results_.begin(), results_.begin() + static_cast<ptrdiff_t>(count));
  in_flight_ -= count;
  return count;
}

void ThreadBackend::WaitReady() {
  std::unique_lock lock(mutex_);
  result_there_.wait(lock, [this] { return in_flight_ == 0 || !results_.empty(); });
}

void ThreadBackend::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_there_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    BackendRead read = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    ssize_t count =
        pread(read.file->fd(), read.destination, read.length, static_cast<off_t>(read.offset));
    BackendResult result{read.id, count >= 0 ? count : -errno};
    lock.lock();
    results_.push_back(result);
    result_there_.notify_one();
  }
}

}  // namespace

Result<std::unique_ptr<ReadBackend>> MakeThreadBackend(size_t depth) {
  auto backend = std::make_unique<ThreadBackend>(depth);
  SS_RETURN_IF_ERROR(backend->StartThreads());
  return backend;
}

}  // namespace slotstream::io
