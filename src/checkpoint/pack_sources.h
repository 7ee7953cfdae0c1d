// The files that a pack is made from.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/original_checkpoint.h"
#include "checkpoint/pack_journal.h"
#include "checkpoint/pack_workspace.h"
#include "checkpoint/pack_writer.h"
#include "checkpoint/packed_layout.h"
#include "io/read_queue.h"

namespace slotstream::checkpoint {

// Larger files beside the weights are no tokenizer or configuration; they are left out.
inline constexpr uint64_t kMaxSideFile = uint64_t{64} << 20;

// How the checkpoint lies once packed. kUnsupported: see PlaceNgramTables.
Result<PackedLayout> PackedLayoutOf(const OriginalCheckpoint& source);

// Names of the small files to copy as they are: everything in the directory but weights, their
// index, hidden files and files over kMaxSideFile; sorted.
Result<std::vector<std::string>> ListSideFiles(const std::string& directory);

// Weights and side files as they are now.
Result<std::vector<SourceState>> ExamineSources(const OriginalCheckpoint& source,
                                                const std::vector<std::string>& side_files);

// Fills in the SHA-256 of every weight file in the workspace's sources, from options.known_sha256
// or by reading; each file done is journaled.
Status HashSources(const OriginalCheckpoint& source, io::ReadQueue& queue, PackWorkspace& work,
                   const PackOptions& options);

}  // namespace slotstream::checkpoint
