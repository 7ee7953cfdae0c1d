#include "cli/directories.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace slotstream::cli {
namespace {

// The rules ask to ignore relative paths.
std::string Absolute(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

}  // namespace

std::string CacheDirectory() {
  if (const std::string cache = Absolute("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/slotstream";
  }
  const std::string home = Absolute("HOME");
  return home.empty() ? "" : home + "/.cache/slotstream";
}

std::string RuntimeDirectory() {
  const std::string runtime = Absolute("XDG_RUNTIME_DIR");
  return runtime.empty() ? fmt::format("/tmp/slotstream-{}", geteuid()) : runtime + "/slotstream";
}

std::string Shown(const std::string& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::weakly_canonical(path, error);
  const std::string text = error ? path : full.string();
  const std::string home = Absolute("HOME");
  if (home.size() > 1 && (text == home || text.starts_with(home + "/"))) {
    return "~" + text.substr(home.size());
  }
  return text;
}

}  // namespace slotstream::cli
