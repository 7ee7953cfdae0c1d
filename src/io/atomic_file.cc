#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "io/owned_fd.h"
#include "io/system_error.h"

namespace slotstream::io {
namespace {

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string DirectoryOf(const std::string& path) {
  std::string parent = std::filesystem::path(WithoutTrailingSlashes(path)).parent_path().string();
  return parent.empty() ? "." : parent;
}

Status WriteNewFile(const std::string& path, std::span<const std::byte> bytes) {
  OwnedFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return std::unexpected(SystemError(errno, "create", path));
  for (size_t written = 0; written < bytes.size();) {
    ssize_t count = write(fd.get(), bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return std::unexpected(
          SystemError(errno, fmt::format("write {} bytes to", bytes.size()), path));
    }
    written += static_cast<size_t>(count);
  }
  if (fsync(fd.get()) != 0) return std::unexpected(SystemError(errno, "sync", path));
  return {};
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::span<const std::byte> bytes) {
  std::string temporary = path + ".tmp";
  // Removed, not truncated: the name may have become a link to something else.
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT) {
    return std::unexpected(SystemError(errno, "remove the old", temporary));
  }
  Status status = WriteNewFile(temporary, bytes);
  if (status && rename(temporary.c_str(), path.c_str()) != 0) {
    status = std::unexpected(SystemError(errno, fmt::format("rename {} to", temporary), path));
  }
  if (!status) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(DirectoryOf(path));
}

Status PublishFile(const std::string& temporary, const std::string& path) {
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return std::unexpected(SystemError(errno, fmt::format("rename {} to", temporary), path));
  }
  return SyncDirectory(DirectoryOf(path));
}

Status RenameDirectoryAtomically(const std::string& from, const std::string& to) {
  SS_RETURN_IF_ERROR(SyncDirectory(from));
  if (rename(WithoutTrailingSlashes(from).c_str(), WithoutTrailingSlashes(to).c_str()) != 0) {
    Error error = SystemError(errno, fmt::format("rename {} to", from), to);
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("cannot rename {} to {}: something is there already; remove it or "
                              "choose another name",
                              from, to));
    }
    if (errno == EXDEV) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("cannot rename {} to {}: they lie on different file systems", from, to));
    }
    return std::unexpected(std::move(error));
  }
  SS_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(to)));
  if (DirectoryOf(from) == DirectoryOf(to)) return {};
  return SyncDirectory(DirectoryOf(from));
}

Status SyncDirectory(const std::string& directory) {
  OwnedFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(SystemError(errno, "open directory", directory));
  // EINVAL: a file system (some of FUSE and CIFS) on which directories need no syncing.
  if (fsync(fd.get()) != 0 && errno != EINVAL) {
    return std::unexpected(SystemError(errno, "sync directory", directory));
  }
  return {};
}

}  // namespace slotstream::io
