#include "state/prefix_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <tuple>
#include <utility>

#include "io/file.h"
#include "io/file_lock.h"
#include "io/system_error.h"
#include "state/prefix_file.h"

namespace slotstream::state {

namespace fs = std::filesystem;

bool IsPrefixName(std::string_view name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsPrefixFile(std::string_view file, std::string_view suffix) {
  return file.ends_with(suffix) && IsPrefixName(file.substr(0, file.size() - suffix.size()));
}

bool IsPart(std::string_view file) {
  if (!file.ends_with(kPartSuffix)) return false;
  file.remove_suffix(kPartSuffix.size());
  return IsPrefixFile(file, kHeadSuffix) || IsPrefixFile(file, kRowsSuffix);
}

Result<std::vector<FileFacts>> ListFiles(const std::string& directory) {
  std::vector<FileFacts> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat facts = {};
    if (lstat(entry->path().c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    files.push_back({entry->path().filename().string(), static_cast<uint64_t>(facts.st_size),
                     facts.st_mtim.tv_sec});
  }
  if (error) return std::unexpected(io::SystemError(error.value(), "list", directory));
  std::ranges::sort(files, {},
                    [](const FileFacts& file) { return std::tuple(file.last_use, file.name); });
  return files;
}

Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return std::unexpected(io::SystemError(errno, "remove", path));
}

Result<std::vector<PrefixListing>> ListPrefixes(const std::string& directory) {
  SS_ASSIGN_OR_RETURN(const std::vector<FileFacts> files, ListFiles(directory));
  std::vector<PrefixListing> list;
  for (const FileFacts& found : files) {
    const bool head = IsPrefixFile(found.name, kHeadSuffix);
    if (!head && !IsPrefixFile(found.name, kRowsSuffix)) continue;
    PrefixListing listing{.file = found};
    const auto file = io::File::Open(directory + "/" + found.name, false);
    if (!file) {
      listing.problem = file.error().message;
    } else if (head) {
      const auto about = ReadHeadOfAny(**file);
      if (about) {
        listing.tokens = about->keys.size();
        listing.turn = about->turn;
        listing.junction = about->junction;
      } else {
        listing.problem = about.error().message;
      }
    }
    list.push_back(std::move(listing));
  }
  return list;
}

Result<uint64_t> ClearPrefixes(const std::string& directory) {
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock,
                      io::FileLock::Acquire(directory + "/" + std::string(kLockName)));
  SS_ASSIGN_OR_RETURN(const std::vector<FileFacts> files, ListFiles(directory));
  uint64_t bytes = 0;
  // Heads before their rows: what is left midway is whole.
  for (const std::string_view suffix : {kHeadSuffix, kRowsSuffix, kPartSuffix}) {
    for (const FileFacts& file : files) {
      const bool part = suffix == kPartSuffix && IsPart(file.name);
      if (!part && !IsPrefixFile(file.name, suffix)) continue;
      SS_RETURN_IF_ERROR(RemoveFile(directory + "/" + file.name));
      bytes += file.bytes;
    }
  }
  return bytes;
}

}  // namespace slotstream::state
