// The journal of an unfinished pack: what it packs, and how far its files are safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"
#include "checkpoint/packed_layout.h"

namespace slotstream::checkpoint {

inline constexpr std::string_view kJournalFile = "journal.json";

// A source file as it was when the pack began. Size, time of change and the hash of its first bytes
// (of a safetensors file: its header) tell whether it is still the same without reading it whole.
struct SourceState {
  std::string name;
  uint64_t bytes = 0;
  int64_t modified_nanos = 0;
  std::string head_sha256;
  std::string sha256;  // of all of it; empty until known
  bool SameFile(const SourceState& other) const {
    return name == other.name && bytes == other.bytes && modified_nanos == other.modified_nanos &&
           head_sha256 == other.head_sha256;
  }
};

struct PackJournal {
  std::vector<SourceState> sources;
  // Bytes of each file of the working directory that are on the disk; what follows is to be cut
  // off. A file not named here is to be begun anew.
  std::map<std::string, uint64_t> lengths;
  std::string ToJson() const;
};

// kCorrupt, kUnsupported: not a journal this program can resume.
Result<PackJournal> ParseJournal(std::string_view json, std::string_view name);

// The state of `name` in `directory` now; `head_bytes` are hashed. Errors: those of io::File.
Result<SourceState> ReadSourceState(const std::string& directory, const std::string& name,
                                    uint64_t head_bytes);

}  // namespace slotstream::checkpoint
