// Where this program keeps what belongs to one user (XDG Base Directory Specification 0.8).
#pragma once

#include <string>

#include "base/result.h"

namespace slotstream::cli {

// For facts about running processes: $XDG_RUNTIME_DIR/slotstream, else slotstream-UID in the
// system's directory of temporary files. Made if need be, for this user alone; kIo when another
// user owns it or may write to it.
Result<std::string> RuntimeDirectory();

// For logs: $XDG_STATE_HOME/slotstream, else ~/.local/state/slotstream. It may have to be made.
// kNotFound: there is neither variable nor home.
Result<std::string> StateDirectory();

// Where engines tell each other what they planned with: engines/ in the runtime directory; empty
// when there is none.
std::string EngineDirectory();

// For measurements: $XDG_CACHE_HOME/slotstream, else ~/.cache/slotstream; empty when there is
// neither variable nor home. It may have to be made.
std::string CacheDirectory();

// `path` with ~ for the user's home, so that it can be shown to others.
std::string Shown(const std::string& path);

}  // namespace slotstream::cli
