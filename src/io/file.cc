#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "io/system_error.h"

namespace slotstream::io {
namespace {

// Staging of unaligned direct reads: large enough that a disk streams at its full rate, small
// enough to be no line in a memory plan.
constexpr size_t kStagingBytes = size_t{1} << 20;

// pread restarted after signals.
ssize_t ReadOnce(int fd, std::span<std::byte> out, uint64_t offset) {
  ssize_t count;
  do {
    count = pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
  } while (count < 0 && errno == EINTR);
  return count;
}

struct RegularFile {
  OwnedFd fd;
  uint64_t size = 0;
};

Result<RegularFile> OpenRegular(const std::string& path) {
  // O_NONBLOCK lets the opening of a pipe return, to be refused below.
  OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return std::unexpected(SystemError(errno, "open", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return std::unexpected(SystemError(errno, "stat", path));
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot read {}: it is {}, not a regular file", path,
                            S_ISDIR(info.st_mode) ? "a directory" : "a device, pipe or socket"));
  }
  if (fcntl(fd.get(), F_SETFL, 0) != 0) {
    return std::unexpected(SystemError(errno, "set up", path));
  }
  return RegularFile{std::move(fd), static_cast<uint64_t>(info.st_size)};
}

// Switches `fd` to direct reads where these exist and save the page cache.
bool MakeDirect(int fd) {
  // Since Linux 6.6 tmpfs takes the flag, but its files are page cache and nothing else.
  struct statfs file_system;
  if (fstatfs(fd, &file_system) != 0 || file_system.f_type == TMPFS_MAGIC) return false;
  if (fcntl(fd, F_SETFL, O_DIRECT) != 0) return false;
  // Some file systems take the flag and then refuse the reads.
  auto page = AlignedBuffer::Allocate(kDirectAlignment, "a probing read");
  if (page && ReadOnce(fd, page->span(), 0) >= 0) return true;
  fcntl(fd, F_SETFL, 0);
  return false;
}

}  // namespace

Result<std::unique_ptr<File>> File::Open(const std::string& path, bool direct) {
  SS_ASSIGN_OR_RETURN(RegularFile file, OpenRegular(path));
  bool is_direct = direct && MakeDirect(file.fd.get());
  return std::unique_ptr<File>(new File(path, std::move(file.fd), is_direct, file.size));
}

File::File(std::string path, OwnedFd fd, bool direct, uint64_t size)
    : path_(std::move(path)), fd_(std::move(fd)), direct_(direct), size_(size) {}

Status File::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  // Nothing lies beyond what off_t can say; the system would call such an offset invalid.
  constexpr uint64_t kMaxOffset = std::numeric_limits<off_t>::max();
  if (offset > kMaxOffset || out.size() > kMaxOffset - offset) {
    return std::unexpected(Truncated(offset, out.size()));
  }
  bool aligned = offset % alignment() == 0 && out.size() % alignment() == 0 &&
                 reinterpret_cast<uintptr_t>(out.data()) % alignment() == 0;
  int64_t count = 0;
  if (aligned) {
    count = ReadAligned(offset, out, out.size());
  } else {
    size_t pages = AlignUp(offset % kDirectAlignment + out.size(), kDirectAlignment);
    SS_ASSIGN_OR_RETURN(
        AlignedBuffer staging,
        AlignedBuffer::Allocate(std::min(kStagingBytes, pages), "reading " + path_));
    count = ReadStaged(offset, out, staging.span());
  }
  if (count < 0) {
    return std::unexpected(
        SystemError(static_cast<int>(-count),
                    fmt::format("read {} bytes at offset {} of", out.size(), offset), path_));
  }
  if (static_cast<size_t>(count) < out.size()) {
    return std::unexpected(Truncated(offset, out.size()));
  }
  return {};
}

int64_t File::ReadAligned(uint64_t offset, std::span<std::byte> out, size_t required) const {
  size_t arrived = 0;
  while (arrived < required) {
    // A direct read that ended inside a block is continued from that block's start.
    size_t begin = arrived / alignment() * alignment();
    ssize_t count = ReadOnce(fd(), out.subspan(begin), offset + begin);
    if (count < 0) return -errno;
    if (begin + static_cast<size_t>(count) <= arrived) break;
    arrived = begin + static_cast<size_t>(count);
  }
  return static_cast<int64_t>(arrived);
}

int64_t File::ReadStaged(uint64_t offset, std::span<std::byte> out,
                         std::span<std::byte> staging) const {
  size_t done = 0;
  while (done < out.size()) {
    size_t skip = (offset + done) % kDirectAlignment;
    size_t part = std::min(out.size() - done, staging.size() - skip);
    std::span<std::byte> pages = staging.first(AlignUp(skip + part, kDirectAlignment));
    int64_t count = ReadAligned(offset + done - skip, pages, skip + part);
    if (count < 0) return count;
    size_t usable = std::min(part, std::max<size_t>(static_cast<size_t>(count), skip) - skip);
    std::memcpy(out.data() + done, pages.data() + skip, usable);
    done += usable;
    if (usable < part) break;
  }
  return static_cast<int64_t>(done);
}

Error File::Truncated(uint64_t offset, uint64_t needed) const {
  struct stat info;
  uint64_t size_now = fstat(fd(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : size_;
  return {
      ErrorCode::kCorrupt,
      fmt::format("{} is truncated: needs {} bytes at offset {}, file has {}; fetch or make the "
                  "file again",
                  path_, needed, offset, size_now)};
}

Result<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  SS_ASSIGN_OR_RETURN(RegularFile file, OpenRegular(path));
  std::string contents;
  // The size is only a hint: files of procfs claim none, others may be growing.
  uint64_t chunk = std::clamp<uint64_t>(file.size + 1, kPageSize, kStagingBytes);
  for (;;) {
    size_t have = contents.size();
    contents.resize(have + chunk);
    auto rest = std::as_writable_bytes(std::span(contents).subspan(have));
    ssize_t count = ReadOnce(file.fd.get(), rest, have);
    if (count < 0) return std::unexpected(SystemError(errno, "read", path));
    contents.resize(have + static_cast<size_t>(count));
    if (count == 0) return contents;
    if (contents.size() > max_bytes) {
      return Fail(ErrorCode::kResourceLimit,
                  fmt::format("{} is too large: more than the {} bytes allowed for such a file; is "
                              "it the right file?",
                              path, max_bytes));
    }
  }
}

}  // namespace slotstream::io
