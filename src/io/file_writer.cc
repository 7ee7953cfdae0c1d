#include "io/file_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/system_error.h"

namespace slotstream::io {
namespace {

// Small appends are gathered to this size: one system call for many records.
constexpr size_t kBufferBytes = size_t{1} << 20;

// Bytes between two pushes to the disk. At most two such windows are dirty or cached.
constexpr uint64_t kWindowBytes = uint64_t{8} << 20;

constexpr uint64_t AlignDownToPage(uint64_t value) { return value / kPageSize * kPageSize; }

}  // namespace

FileWriter::FileWriter(std::string path, OwnedFd fd, uint64_t length)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      written_(length),
      started_(AlignDownToPage(length)),
      dropped_(started_) {
  buffer_.reserve(kBufferBytes);
}

Result<std::unique_ptr<FileWriter>> FileWriter::Create(const std::string& path) {
  return Open(path, O_CREAT | O_TRUNC, 0);
}

Result<std::unique_ptr<FileWriter>> FileWriter::Resume(const std::string& path, uint64_t length) {
  return Open(path, 0, length);
}

Result<std::unique_ptr<FileWriter>> FileWriter::Open(const std::string& path, int flags,
                                                     uint64_t length) {
  OwnedFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
  if (!fd.valid()) return std::unexpected(SystemError(errno, "open for writing", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return std::unexpected(SystemError(errno, "stat", path));
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size < length) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("cannot continue {} after {} bytes: it has only {}; start it again",
                            path, length, size));
  }
  if (size > length && ftruncate(fd.get(), static_cast<off_t>(length)) != 0) {
    return std::unexpected(SystemError(
        errno, fmt::format("cut off what follows the first {} bytes of", length), path));
  }
  return std::unique_ptr<FileWriter>(new FileWriter(path, std::move(fd), length));
}

Status FileWriter::Append(std::span<const std::byte> bytes) {
  if (!failure_) return failure_;
  if (buffer_.size() + bytes.size() > kBufferBytes) SS_RETURN_IF_ERROR(FlushBuffer());
  if (bytes.size() >= kBufferBytes) return Write(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return {};
}

Status FileWriter::Sync() {
  if (!failure_) return failure_;
  SS_RETURN_IF_ERROR(FlushBuffer());
  if (fdatasync(fd_.get()) != 0) {
    return Failed(errno, fmt::format("sync {} bytes of", written_));
  }
  posix_fadvise(fd_.get(), static_cast<off_t>(dropped_), 0, POSIX_FADV_DONTNEED);
  started_ = dropped_ = AlignDownToPage(written_);
  return {};
}

Status FileWriter::FlushBuffer() {
  Status status = Write(buffer_);
  buffer_.clear();
  return status;
}

Status FileWriter::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // No further than the window's end, so that a large append keeps to the windows too.
    size_t count = std::min<size_t>(bytes.size(), kWindowBytes - written_ % kWindowBytes);
    ssize_t done = pwrite(fd_.get(), bytes.data(), count, static_cast<off_t>(written_));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      return Failed(errno, fmt::format("write {} bytes at offset {} of", bytes.size(), written_));
    }
    written_ += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
    SS_RETURN_IF_ERROR(LimitDirtyPages());
  }
  return {};
}

// At a window's end: sends it on its way, then waits for the window before it and drops that one
// from the cache. The disk works on one window while the next is filled.
Status FileWriter::LimitDirtyPages() {
  if (written_ % kWindowBytes != 0) return {};
  auto push = [&](uint64_t begin, uint64_t end, unsigned flags) {
    return sync_file_range(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                           flags) == 0
               ? 0
               : errno;
  };
  int error_number = push(started_, written_, SYNC_FILE_RANGE_WRITE);
  if (error_number == 0 && started_ > dropped_) {
    error_number =
        push(dropped_, started_,
             SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(fd_.get(), static_cast<off_t>(dropped_), static_cast<off_t>(started_ - dropped_),
                  POSIX_FADV_DONTNEED);
  }
  // Errors of the disk are reported once and only here; that a file system lacks the call is none.
  if (error_number == EIO || error_number == ENOSPC || error_number == EDQUOT) {
    return Failed(error_number, fmt::format("write the {} bytes before offset {} of",
                                            written_ - dropped_, written_));
  }
  dropped_ = started_;
  started_ = written_;
  return {};
}

Status FileWriter::Failed(int error_number, std::string_view action) {
  failure_ = std::unexpected(SystemError(error_number, action, path_));
  return failure_;
}

}  // namespace slotstream::io
