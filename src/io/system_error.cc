#include "io/system_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace slotstream::io {
namespace {

struct Explanation {
  ErrorCode code;
  std::string_view advice;  // may be empty
};

Explanation Explain(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return {ErrorCode::kNotFound, "check the path"};
    case ENOSPC:
      return {ErrorCode::kResourceLimit, "free some space or choose another disk"};
    case EDQUOT:
      return {ErrorCode::kResourceLimit, "free some of your quota or choose another disk"};
    case EFBIG:
      return {ErrorCode::kResourceLimit,
              "raise the file size limit (ulimit -f) or choose a file system with larger files"};
    case EMFILE:
      return {ErrorCode::kResourceLimit, "raise the limit of open files (ulimit -n)"};
    case ENFILE:
    case ENOMEM:
      return {ErrorCode::kResourceLimit, "the system is short of memory or file handles"};
    case EACCES:
    case EPERM:
      return {ErrorCode::kIo, "check the permissions and the user this runs as"};
    case EROFS:
      return {ErrorCode::kIo, "the file system is mounted read-only"};
    case EIO:
      return {ErrorCode::kIo, "the disk may be failing; see the system log (dmesg)"};
    case ENODEV:
    case ENXIO:
      return {ErrorCode::kIo, "the disk is gone; check its connection and the system log (dmesg)"};
    case ESTALE:
      return {ErrorCode::kIo, "the network file system dropped the file; mount it again"};
    default:
      return {ErrorCode::kIo, ""};
  }
}

}  // namespace

Error SystemError(int error_number, std::string_view action, std::string_view path) {
  Explanation explanation = Explain(error_number);
  // std::generic_category and not strerror, which is not safe with threads.
  std::string message =
      fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error_number));
  if (!explanation.advice.empty()) message += fmt::format("; {}", explanation.advice);
  return {explanation.code, std::move(message)};
}

}  // namespace slotstream::io
