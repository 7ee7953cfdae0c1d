// Errors are values. Every function that can fail on input, files or memory returns Result<T>;
// exceptions do not cross a folder.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace slotstream {

enum class ErrorCode {
  kInvalidArgument,  // the caller's wish makes no sense (a flag, a request field)
  kNotFound,         // a file or name that should exist does not
  kCorrupt,          // bytes that contradict their format, their checksum or each other
  kUnsupported,      // well formed, but asks for something this build does not do
  kIo,               // the operating system refused or failed a read or write
  kResourceLimit,    // memory, disk space or slots do not suffice
  kCancelled,        // the request was cancelled by its owner
  kInternal,         // a broken invariant of ours; always a bug
};

// Stable lower-case name of a code, e.g. "corrupt".
std::string_view ErrorCodeName(ErrorCode code);

// `message` says what failed, where (file, tensor, offset) and, where it helps, what to do.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// Shorthand to return a failure: `return Fail(ErrorCode::kCorrupt, "...")`.
inline std::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

}  // namespace slotstream

#define SS_CONCAT_INNER(a, b) a##b
#define SS_CONCAT(a, b) SS_CONCAT_INNER(a, b)

// SS_RETURN_IF_ERROR(expr): returns the error of a Status or Result expression, if it is one.
#define SS_RETURN_IF_ERROR(expr)                            \
  do {                                                      \
    if (auto ss_status = (expr); !ss_status) {              \
      return std::unexpected(std::move(ss_status).error()); \
    }                                                       \
  } while (false)

// SS_ASSIGN_OR_RETURN(auto x, expr): binds the value, or returns the error.
#define SS_ASSIGN_OR_RETURN(decl, expr) \
  SS_ASSIGN_OR_RETURN_IMPL(SS_CONCAT(ss_result_, __LINE__), decl, expr)
#define SS_ASSIGN_OR_RETURN_IMPL(tmp, decl, expr)           \
  auto tmp = (expr);                                        \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  decl = std::move(*tmp)
