#include "io/free_space.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>

#include "io/system_error.h"

namespace slotstream::io {

Result<uint64_t> FreeBytes(const std::string& path) {
  std::filesystem::path ancestor(path.empty() ? "." : path);
  for (;;) {
    struct statvfs info;
    int result = statvfs(ancestor.c_str(), &info);
    if (result == 0) return uint64_t{info.f_bavail} * uint64_t{info.f_frsize};
    if (errno == EINTR) continue;
    std::filesystem::path parent = ancestor.parent_path();
    if (parent.empty()) parent = ".";
    if ((errno != ENOENT && errno != ENOTDIR) || parent == ancestor) {
      return std::unexpected(SystemError(errno, "ask for the free space at", path));
    }
    ancestor = parent;
  }
}

}  // namespace slotstream::io
