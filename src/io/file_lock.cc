#include "io/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "io/system_error.h"

namespace slotstream::io {
namespace {

// "process N", as far as the holder has written its id yet.
std::string Holder(int fd) {
  std::array<char, 32> text{};
  ssize_t count = pread(fd, text.data(), text.size(), 0);
  long pid = 0;
  if (count > 0) std::from_chars(text.data(), text.data() + count, pid);
  return pid > 0 ? fmt::format("process {}", pid) : "another process";
}

}  // namespace

Result<std::unique_ptr<FileLock>> FileLock::Acquire(const std::string& path) {
  OwnedFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return std::unexpected(SystemError(errno, "open lock file", path));
  int result;
  do {
    result = flock(fd.get(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("{} is locked by {}; wait for it or end it", path, Holder(fd.get())));
  }
  if (result != 0) return std::unexpected(SystemError(errno, "lock", path));
  std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return std::unexpected(SystemError(errno, "write the process id to", path));
  }
  return std::unique_ptr<FileLock>(new FileLock(path, std::move(fd)));
}

}  // namespace slotstream::io
