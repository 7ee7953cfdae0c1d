#include "cli/user_directories.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "io/system_error.h"

namespace slotstream::cli {
namespace {

// An absolute path, as the specification wants it; empty otherwise.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

}  // namespace

Result<std::string> RuntimeDirectory() {
  const std::string base = Variable("XDG_RUNTIME_DIR");
  std::error_code ignored;
  std::string directory = base + "/slotstream";
  if (base.empty() || !std::filesystem::is_directory(base, ignored)) {
    const std::string temporary = Variable("TMPDIR");
    directory = fmt::format("{}/slotstream-{}", temporary.empty() ? "/tmp" : temporary, geteuid());
  }
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return std::unexpected(io::SystemError(errno, "make", directory));
  }
  struct stat facts = {};
  // lstat: in a directory that everyone writes to, the name may be another user's link.
  if (lstat(directory.c_str(), &facts) != 0) {
    return std::unexpected(io::SystemError(errno, "look at", directory));
  }
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 022) != 0) {
    return Fail(ErrorCode::kIo,
                fmt::format("{} is not a directory that only this user may write to; remove it, or "
                            "set XDG_RUNTIME_DIR",
                            directory));
  }
  return directory;
}

Result<std::string> StateDirectory() {
  std::string base = Variable("XDG_STATE_HOME");
  if (base.empty()) {
    const std::string home = Variable("HOME");
    if (home.empty()) {
      return Fail(ErrorCode::kNotFound,
                  "there is no place for the log: set HOME or XDG_STATE_HOME");
    }
    base = home + "/.local/state";
  }
  return base + "/slotstream";
}

std::string EngineDirectory() {
  const Result<std::string> runtime = RuntimeDirectory();
  return runtime ? *runtime + "/engines" : "";
}

std::string CacheDirectory() {
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/slotstream";
  }
  const std::string home = Variable("HOME");
  return home.empty() ? "" : home + "/.cache/slotstream";
}

std::string Shown(const std::string& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::weakly_canonical(path, error);
  const std::string text = error ? path : full.string();
  const std::string home = Variable("HOME");
  if (home.size() > 1 && (text == home || text.starts_with(home + "/"))) {
    return "~" + text.substr(home.size());
  }
  return text;
}

}  // namespace slotstream::cli
