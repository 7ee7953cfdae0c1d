// Room left on a file system.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace slotstream::io {

// Bytes that an unprivileged process may still write where `path`, an existing or future file or
// directory, lies: asked of its nearest existing ancestor. Errors: kIo.
Result<uint64_t> FreeBytes(const std::string& path);

}  // namespace slotstream::io
