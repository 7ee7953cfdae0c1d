// How a store writes a state: rows first, then the head that needs them.
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "io/atomic_file.h"
#include "io/free_space.h"
#include "state/prefix_directory.h"
#include "state/prefix_store.h"

namespace slotstream::state {
namespace {

// A head with more is written with one segment of all rows, so that a restore stays a few long
// reads.
constexpr size_t kMostSegments = 64;

}  // namespace

Result<bool> PrefixStore::Save(const Saving& saving) {
  if (saving.keys.size() < options_.min_tokens) return false;
  std::lock_guard one_at_a_time(saving_);
  {
    std::lock_guard lock(mutex_);
    const std::vector<Id> entries = tree_.Find(saving.keys).entries;
    if (!entries.empty()) {
      const size_t length = tree_.Length(entries.back());
      // A beginning that conversations share is worth its own state however near another is.
      const bool near = length + saving.least_new > saving.keys.size() && !saving.junction;
      if (near || length == saving.keys.size()) {
        ++stats_.skipped;
        return false;
      }
    }
  }
  if (Status written = Write(saving); !written) {
    std::lock_guard lock(mutex_);
    Note(written.error());
    return std::unexpected(std::move(written).error());
  }
  return true;
}

Status PrefixStore::Write(const Saving& saving) {
  const Sequence& state = *saving.state;
  const std::span<const uint32_t> context = state.ngram_context.previous();
  PrefixHead about{.keys = saving.keys,
                   .segments = {},
                   .replies = saving.replies,
                   .next_id = saving.next_id,
                   .context = {context.begin(), context.end()},
                   .next_position = saving.state->next_position(),
                   .junction = saving.junction,
                   .turn = saving.turn};
  uint64_t begin = 0, head_bytes = 0, rows_bytes = 0;
  bool have_rows = false;
  SS_ASSIGN_OR_RETURN(const std::string name,
                      PrefixFileName(options_.identity, "head", saving.keys, 0));
  {
    std::lock_guard lock(mutex_);
    DropExpired();
    const std::vector<Id> entries = tree_.Find(saving.keys).entries;
    std::optional<Id> base;
    if (!entries.empty() && heads_.at(entries.back()).about.segments.size() < kMostSegments) {
      base = entries.back();
      about.segments = heads_.at(*base).about.segments;
      begin = tree_.Length(*base);
    }
    SS_ASSIGN_OR_RETURN(std::string rows,
                        PrefixFileName(options_.identity, "rows", saving.keys, begin));
    about.segments.push_back({rows, begin, saving.keys.size()});
    head_bytes = HeadBytes(state, about);
    rows_bytes = SegmentBytes(state, begin, saving.keys.size());
    SS_RETURN_IF_ERROR(MakeRoom(head_bytes + rows_bytes, base));
    // A longer state may still need the rows of one that was dropped.
    have_rows = segments_.contains(rows);
    if (have_rows) rows_bytes = 0;
  }
  const uint64_t needed = head_bytes + rows_bytes;
  SS_ASSIGN_OR_RETURN(const uint64_t free, io::FreeBytes(options_.directory));
  if (free < needed + options_.least_free_bytes) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("{} has {} bytes left; a state of {} would leave less than {}",
                            options_.directory, free, needed, options_.least_free_bytes));
  }
  const std::string segment = about.segments.back().name + std::string(kRowsSuffix);
  const std::string head = name + std::string(kHeadSuffix);
  const auto part = [this](const std::string& file) {
    return Path(file + std::string(kPartSuffix));
  };
  const auto publish = [&](const std::string& file, Result<std::vector<Piece>> written) {
    if (written) {
      if (Status published = io::PublishFile(part(file), Path(file)); !published) {
        written = std::unexpected(std::move(published).error());
      }
    }
    if (!written) unlink(part(file).c_str());
    return written;
  };
  std::vector<Piece> row_pieces;
  if (!have_rows) {
    SS_ASSIGN_OR_RETURN(
        row_pieces, publish(segment, WriteSegment(part(segment), options_.identity, state, begin,
                                                  saving.keys.size())));
  }
  auto written = publish(head, WriteHead(part(head), options_.identity, about, state));
  if (!written) {
    if (!have_rows) unlink(Path(segment).c_str());
    return std::unexpected(std::move(written).error());
  }
  about.pieces = std::move(*written);
  std::lock_guard lock(mutex_);
  if (!have_rows) {
    Segment& rows = segments_[about.segments.back().name];
    rows.bytes = rows_bytes;
    rows.pieces = std::move(row_pieces);
  }
  about.file_bytes = head_bytes;
  bytes_ += needed;
  ++stats_.saved;
  stats_.bytes_written += needed;
  stats_.last_save_bytes = needed;
  Add({std::move(about), head, options_.now()});
  DropSuperseded(saving.keys, saving.turn);
  return {};
}

}  // namespace slotstream::state
