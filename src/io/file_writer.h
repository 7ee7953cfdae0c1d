// Appends to large files without filling the page cache of a small machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "io/owned_fd.h"

namespace slotstream::io {

// An append-only file. Written ranges are sent to the disk as the file grows and then dropped from
// the page cache, so a file of many gigabytes keeps only some tens of megabytes of it.
//
// Errors: kResourceLimit (disk full, quota, file size limit; the message has the path and the bytes
// written), kNotFound (no such directory), kIo. After a failed Append or Sync the file's tail is
// unspecified and every later call fails the same way; Resume from the last synced length.
// One thread at a time.
class FileWriter {
 public:
  // A new file, or an existing one emptied.
  static Result<std::unique_ptr<FileWriter>> Create(const std::string& path);

  // Continues an existing file after its first `length` bytes and cuts off what follows them.
  // kCorrupt when it is shorter than that.
  static Result<std::unique_ptr<FileWriter>> Resume(const std::string& path, uint64_t length);

  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  // Closes. Bytes appended after the last Sync may be lost.
  ~FileWriter() = default;

  Status Append(std::span<const std::byte> bytes);

  // Blocks until everything appended so far survives a crash of the machine. The directory entry of
  // a new file is the caller's to sync (SyncDirectory, RenameDirectoryAtomically).
  Status Sync();

  // Bytes of the file, those still in the writer's own buffer included.
  uint64_t size() const { return written_ + buffer_.size(); }
  const std::string& path() const { return path_; }

 private:
  FileWriter(std::string path, OwnedFd fd, uint64_t length);
  static Result<std::unique_ptr<FileWriter>> Open(const std::string& path, int flags,
                                                  uint64_t length);

  Status Write(std::span<const std::byte> bytes);
  Status FlushBuffer();
  Status LimitDirtyPages();
  Status Failed(int error_number, std::string_view action);

  std::string path_;
  OwnedFd fd_;
  std::vector<std::byte> buffer_;
  uint64_t written_ = 0;  // bytes given to the system
  uint64_t started_ = 0;  // bytes whose way to the disk was started
  uint64_t dropped_ = 0;  // bytes on the disk and out of the page cache
  Status failure_;        // the first failure, repeated to every later call
};

}  // namespace slotstream::io
