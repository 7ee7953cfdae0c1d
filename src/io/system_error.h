// Turns errno values into typed errors that name the file and say what to do.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace slotstream::io {

// The error for a failed system call on `path`. `action` is an infinitive: "open", "read 4096 bytes
// at offset 0 of". The message reads "cannot ACTION PATH: STRERROR" and, where something helps,
// "; ADVICE". Codes: kNotFound (no such file or directory on the way), kResourceLimit (disk, quota,
// memory, descriptors), kIo (all others).
Error SystemError(int error_number, std::string_view action, std::string_view path);

}  // namespace slotstream::io
