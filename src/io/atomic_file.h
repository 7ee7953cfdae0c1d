// Replacement of files and directories that leaves the old or the new, never a mixture, whatever
// moment the process or the machine dies.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace slotstream::io {

// Replaces `path` by `bytes`, durably: a temporary file in the same directory (`path`.tmp) is
// written, synced and renamed over it, then the directory is synced. On an error the old file
// stands and the temporary is removed; one left by a killed process is overwritten. One writer per
// path at a time. Errors: kNotFound (no such directory), kResourceLimit (disk full), kIo.
Status WriteFileAtomically(const std::string& path, std::span<const std::byte> bytes);

// Renames directory `from` to `to` (same file system), durably. `to` must not exist or be an empty
// directory. The files inside must have been synced; the directories are synced here.
// Errors: kNotFound, kInvalidArgument (`to` holds something, or lies on another file system), kIo.
Status RenameDirectoryAtomically(const std::string& from, const std::string& to);

// Gives `temporary`, whose contents were synced, its name `path` in the same directory, durably; a
// file of that name is replaced. Errors: kNotFound, kIo.
Status PublishFile(const std::string& temporary, const std::string& path);

// Makes the names in `directory` durable. Errors: kNotFound, kIo.
Status SyncDirectory(const std::string& directory);

}  // namespace slotstream::io
