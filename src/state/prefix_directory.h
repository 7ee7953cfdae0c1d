// The files of a prefix cache's directory, by their names alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slotstream::state {

// A state's head is NAME.head, rows are NAME.rows, NAME 32 hexadecimal digits. Each is written as
// NAME.SUFFIX.part first.
inline constexpr std::string_view kHeadSuffix = ".head";
inline constexpr std::string_view kRowsSuffix = ".rows";
inline constexpr std::string_view kPartSuffix = ".part";
inline constexpr std::string_view kLockName = "lock";

bool IsPrefixName(std::string_view name);
bool IsPrefixFile(std::string_view file, std::string_view suffix);
// A head or rows that a killed process left half-written.
bool IsPart(std::string_view file);

struct FileFacts {
  std::string name;
  uint64_t bytes = 0;
  int64_t last_use = 0;  // seconds since 1970
};
// All regular files, the longest unused first. kIo.
Result<std::vector<FileFacts>> ListFiles(const std::string& directory);
// A file that is not there is no error. kIo.
Status RemoveFile(const std::string& path);

// A file of ours as `slotstream prefix-cache` lists it.
struct PrefixListing {
  FileFacts file;
  uint64_t tokens = 0;  // of a head; 0 for rows
  uint64_t turn = 0;
  bool junction = false;
  std::string problem = {};  // empty: sound, as far as its beginning tells
};
Result<std::vector<PrefixListing>> ListPrefixes(const std::string& directory);
// Removes all files of ours and returns their bytes; others stay. kResourceLimit while a process
// has the directory.
Result<uint64_t> ClearPrefixes(const std::string& directory);

}  // namespace slotstream::state
