// What a store finds in its directory, and how it heals what is not as it should be.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "io/file.h"
#include "io/system_error.h"
#include "state/prefix_directory.h"
#include "state/prefix_store.h"

namespace slotstream::state {
namespace {

namespace fs = std::filesystem;

bool IsBadFile(const Error& error) { return error.code == ErrorCode::kCorrupt; }

}  // namespace

Result<std::unique_ptr<PrefixStore>> PrefixStore::Open(PrefixStoreOptions options) {
  std::error_code error;
  fs::create_directories(options.directory, error);
  if (error) {
    return std::unexpected(io::SystemError(error.value(), "create directory", options.directory));
  }
  auto store = std::unique_ptr<PrefixStore>(new PrefixStore(std::move(options)));
  SS_ASSIGN_OR_RETURN(store->lock_, io::FileLock::Acquire(store->Path(std::string(kLockName))));
  SS_ASSIGN_OR_RETURN(const std::vector<FileFacts> files, ListFiles(store->options_.directory));
  // Rows first: heads are checked against them.
  for (const FileFacts& file : files) {
    if (IsPart(file.name)) {
      SS_RETURN_IF_ERROR(RemoveFile(store->Path(file.name)));
    } else if (IsPrefixFile(file.name, kRowsSuffix)) {
      store->segments_[file.name.substr(0, 32)].bytes = file.bytes;
      store->bytes_ += file.bytes;
    }
  }
  for (const FileFacts& file : files) {
    if (!IsPrefixFile(file.name, kHeadSuffix)) continue;
    store->bytes_ += file.bytes;
    store->TakeIn(file.name, file.last_use);
  }
  store->Heal();
  return store;
}

// Makes a head of a file that was found, or finds a place for it as what it is.
void PrefixStore::TakeIn(const std::string& name, int64_t last_use) {
  const auto file = io::File::Open(Path(name), false);
  if (!file) {
    Note(file.error());
    return;
  }
  auto about = ReadHead(**file, options_.identity);
  if (!about && about.error().code == ErrorCode::kUnsupported) {
    foreign_.push_back({name, (*file)->size(), last_use});
    return;
  }
  const bool whole = about && std::ranges::all_of(about->segments, [&](const SegmentRef& segment) {
                       return segments_.contains(segment.name);
                     });
  if (whole) {
    // A clock that was set back must not keep a state for ever.
    Add({std::move(*about), name, std::min(last_use, options_.now())});
    return;
  }
  if (!about && !IsBadFile(about.error())) {
    Note(about.error());  // unreadable now; perhaps not for ever
    return;
  }
  Note(about ? Error{ErrorCode::kCorrupt, fmt::format("{}: rows are missing", Path(name))}
             : about.error());
  ++stats_.damaged;
  if (Status removed = Remove(name); !removed) Note(removed.error());
}

void PrefixStore::Heal() {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const std::string name = segment->first + std::string(kRowsSuffix);
    const auto file = io::File::Open(Path(name), false);
    auto sound = file ? ReadSegmentTable(**file, options_.identity)
                      : Result<std::vector<Piece>>(std::unexpected(file.error()));
    if (sound) segment->second.pieces = std::move(*sound);
    const bool foreign = !sound && sound.error().code == ErrorCode::kUnsupported;
    if (foreign) {
      foreign_.push_back({name, segment->second.bytes, 0});
      segment = segments_.erase(segment);
      continue;
    }
    if (!sound && IsBadFile(sound.error())) {
      Note(sound.error());
      ++stats_.damaged;
      std::vector<Id> users;
      for (const auto& [id, head] : heads_) {
        if (std::ranges::any_of(head.about.segments, [&](const SegmentRef& ref) {
              return ref.name == segment->first;
            })) {
          users.push_back(id);
        }
      }
      ++segment->second.heads;  // so that its users' going does not take it from under us
      for (const Id id : users) {
        if (Status dropped = Drop(id); !dropped) Note(dropped.error());
      }
      segment->second.heads = 0;
    }
    if (segment->second.heads == 0) {
      bytes_ -= segment->second.bytes;
      if (Status removed = RemoveFile(Path(name)); !removed) Note(removed.error());
      segment = segments_.erase(segment);
    } else {
      ++segment;
    }
  }
  std::ranges::sort(foreign_, {},
                    [](const Foreign& file) { return std::tuple(file.last_use, file.name); });
  DropExpired();
  if (Status room = MakeRoom(0, std::nullopt); !room) Note(room.error());
}

}  // namespace slotstream::state
