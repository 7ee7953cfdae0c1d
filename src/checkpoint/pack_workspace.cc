#include "checkpoint/pack_workspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "io/atomic_file.h"
#include "io/file.h"

namespace slotstream::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxJournalBytes = 64 << 20;

Status FileSystemError(const std::error_code& error, std::string_view action,
                       const std::string& path) {
  return Fail(ErrorCode::kIo, fmt::format("cannot {} {}: {}", action, path, error.message()));
}

}  // namespace

Result<PackWorkspace> PackWorkspace::Open(const std::string& directory,
                                          std::vector<SourceState> sources,
                                          std::vector<std::string>& notes) {
  PackWorkspace out(directory);
  SS_ASSIGN_OR_RETURN(out.resumed_, out.TryResume(sources, notes));
  if (out.resumed_) return out;
  std::error_code error;
  fs::remove_all(directory, error);
  if (error) return std::unexpected(FileSystemError(error, "empty", directory).error());
  fs::create_directories(directory, error);
  if (error) return std::unexpected(FileSystemError(error, "create", directory).error());
  out.journal_ = PackJournal{.sources = std::move(sources), .lengths = {}};
  SS_RETURN_IF_ERROR(out.Commit(nullptr, nullptr));
  return out;
}

Result<bool> PackWorkspace::TryResume(const std::vector<SourceState>& sources,
                                      std::vector<std::string>& notes) {
  const std::string path = fmt::format("{}/{}", directory_, kJournalFile);
  Result<std::string> text = io::ReadWholeFile(path, kMaxJournalBytes);
  if (!text) {
    if (text.error().code == ErrorCode::kNotFound) return false;
    return std::unexpected(std::move(text).error());
  }
  auto start_over = [&](std::string_view why) {
    notes.push_back(fmt::format("the unfinished pack in {} starts over: {}", directory_, why));
    return false;
  };
  Result<PackJournal> journal = ParseJournal(*text, path);
  if (!journal) return start_over(journal.error().message);
  auto same = [](const SourceState& a, const SourceState& b) { return a.SameFile(b); };
  if (!std::ranges::equal(journal->sources, sources, same)) {
    return start_over("the source files are not those it began with");
  }
  for (const auto& [name, length] : journal->lengths) {
    // Opening cuts off what a crash may have left behind the safe bytes.
    auto cut = io::FileWriter::Resume(fmt::format("{}/{}", directory_, name), length);
    if (!cut) return start_over(cut.error().message);
  }
  journal_ = std::move(*journal);
  return true;
}

uint64_t PackWorkspace::safe_length(std::string_view file) const {
  auto found = journal_.lengths.find(std::string(file));
  return found == journal_.lengths.end() ? 0 : found->second;
}

uint64_t PackWorkspace::safe_bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, length] : journal_.lengths) sum += length;
  return sum;
}

Result<std::unique_ptr<io::FileWriter>> PackWorkspace::Writer(std::string_view file) {
  const std::string path = fmt::format("{}/{}", directory_, file);
  const uint64_t length = safe_length(file);
  return length == 0 ? io::FileWriter::Create(path) : io::FileWriter::Resume(path, length);
}

Status PackWorkspace::Commit(io::FileWriter* data, io::FileWriter* checksums) {
  for (io::FileWriter* writer : {data, checksums}) {
    if (writer == nullptr) continue;
    SS_RETURN_IF_ERROR(writer->Sync());
    journal_.lengths[fs::path(writer->path()).filename().string()] = writer->size();
  }
  // Replacing the journal syncs the directory, and with it the names of new files.
  const std::string text = journal_.ToJson();
  return io::WriteFileAtomically(fmt::format("{}/{}", directory_, kJournalFile),
                                 std::as_bytes(std::span(text)));
}

Status PackWorkspace::Discard() {
  std::error_code error;
  fs::remove(fmt::format("{}/{}", directory_, kJournalFile), error);
  return error ? FileSystemError(error, "remove the journal of", directory_) : Status();
}

}  // namespace slotstream::checkpoint
