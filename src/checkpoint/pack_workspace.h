// The working directory of a pack: its files, and the journal that says how far they are safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/pack_journal.h"
#include "io/file_writer.h"

namespace slotstream::checkpoint {

class PackWorkspace {
 public:
  // Opens or creates `directory`. What is there is continued when its journal names the same
  // `sources` and its files hold what the journal promises; otherwise it is emptied, and `notes`
  // says why.
  static Result<PackWorkspace> Open(const std::string& directory, std::vector<SourceState> sources,
                                    std::vector<std::string>& notes);

  const std::string& directory() const { return directory_; }
  bool resumed() const { return resumed_; }
  std::vector<SourceState>& sources() { return journal_.sources; }
  // Bytes of a file that are safe; 0 when it was not begun.
  uint64_t safe_length(std::string_view file) const;
  uint64_t safe_bytes() const;

  // A writer at the safe length of `file`.
  Result<std::unique_ptr<io::FileWriter>> Writer(std::string_view file);
  // Makes everything appended so far safe: syncs both (they may be null), then replaces the
  // journal.
  Status Commit(io::FileWriter* data, io::FileWriter* checksums);
  // Makes a later Open start over.
  Status Discard();

 private:
  explicit PackWorkspace(std::string directory) : directory_(std::move(directory)) {}
  Result<bool> TryResume(const std::vector<SourceState>& sources, std::vector<std::string>& notes);

  std::string directory_;
  PackJournal journal_;
  bool resumed_ = false;
};

}  // namespace slotstream::checkpoint
