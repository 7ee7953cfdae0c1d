// Advisory locks between processes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "io/owned_fd.h"

namespace slotstream::io {

// An exclusive advisory lock (flock) on a lock file, held until destruction; the system lets it go
// when the process dies, however it dies. The file holds the owner's process id and stays behind
// when the lock goes: removing it would let two processes hold two locks of one name.
class FileLock {
 public:
  // Creates the lock file if need be. Does not wait: kResourceLimit when another handle, in this or
  // another process, holds the lock; the message says which process. kNotFound, kIo.
  static Result<std::unique_ptr<FileLock>> Acquire(const std::string& path);

  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() = default;

  const std::string& path() const { return path_; }

 private:
  FileLock(std::string path, OwnedFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  OwnedFd fd_;
};

}  // namespace slotstream::io
