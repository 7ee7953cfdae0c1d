// Where the program keeps things, by the XDG base directory rules, and how it shows paths.
#pragma once

#include <string>

namespace slotstream::cli {

// $XDG_CACHE_HOME/slotstream or ~/.cache/slotstream; empty when neither can be told.
std::string CacheDirectory();

// $XDG_RUNTIME_DIR/slotstream or /tmp/slotstream-UID: what ends with the machine's uptime.
std::string RuntimeDirectory();

// `path` with ~ for the user's home directory, so that it can be shown to others.
std::string Shown(const std::string& path);

}  // namespace slotstream::cli
