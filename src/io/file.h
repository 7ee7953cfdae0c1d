// Files opened for positional reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "io/owned_fd.h"

namespace slotstream::io {

// What a direct read (O_DIRECT) must be a multiple of: offset, length and memory address. Disks ask
// for 512 or 4,096; a page serves both.
inline constexpr size_t kDirectAlignment = kPageSize;

// A regular file opened for reading. Immutable once open, so all methods are safe from any thread.
// It must outlive every read in flight on it.
class File {
 public:
  // Opens `path`. `direct` asks for reads that bypass the page cache; where the file system has
  // none (tmpfs, procfs) the file is opened buffered and direct() says so. Errors: kNotFound,
  // kInvalidArgument (a directory, pipe or device), kResourceLimit (descriptors), kIo.
  static Result<std::unique_ptr<File>> Open(const std::string& path, bool direct);

  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // True when reads bypass the page cache and must keep kDirectAlignment.
  bool direct() const { return direct_; }
  // What reads through a ReadQueue must be multiples of: kDirectAlignment if direct, otherwise 1.
  size_t alignment() const { return direct_ ? kDirectAlignment : 1; }
  const std::string& path() const { return path_; }
  // Bytes in the file when it was opened.
  uint64_t size() const { return size_; }
  int fd() const { return fd_.get(); }

  // Fills all of `out` from `offset`, or fails: kCorrupt when the file ends early, kIo otherwise.
  // Any offset, length and address are allowed; on a direct file what is not aligned passes through
  // a staging buffer. Blocks. On failure the contents of `out` are unspecified.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

  // The kCorrupt error of a read that needs `needed` bytes at `offset` and found the end of the
  // file.
  Error Truncated(uint64_t offset, uint64_t needed) const;

 private:
  File(std::string path, OwnedFd fd, bool direct, uint64_t size);

  // Each returns the bytes read (fewer than needed: the end of the file) or a negative errno value.
  int64_t ReadAligned(uint64_t offset, std::span<std::byte> out, size_t required) const;
  int64_t ReadStaged(uint64_t offset, std::span<std::byte> out, std::span<std::byte> staging) const;

  std::string path_;
  OwnedFd fd_;
  bool direct_;
  uint64_t size_;
};

// The contents of a configuration file. Errors: kNotFound, kInvalidArgument (not a regular file),
// kResourceLimit (more than `max_bytes`), kIo.
Result<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

}  // namespace slotstream::io
