#include "state/prefix_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "checkpoint/sha256.h"
#include "state/prefix_directory.h"

namespace slotstream::state {
namespace {

constexpr std::string_view kHeadMagic = "SLSTHEAD";
constexpr std::string_view kRowsMagic = "SLSTROWS";

struct Facts {
  uint64_t tokens;
  uint64_t turn;
  uint32_t junction;
  int32_t next_position;
  uint32_t context_ids;  // the n-gram context follows, newest first
  uint32_t next_id;
};
static_assert(sizeof(Facts) == 32);

struct StoredSegment {
  char name[32];
  uint64_t begin, end;
};
static_assert(sizeof(StoredSegment) == 48);

struct StoredReply {
  uint32_t begin, end;
  uint64_t said[2];
  uint64_t reasoning;
};
static_assert(sizeof(StoredReply) == 32);

// More are no head of ours: contexts are far shorter.
constexpr uint64_t kMostKeys = uint64_t{1} << 24;

template <typename T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

using Spans = std::vector<std::span<const std::byte>>;

Spans RowSpans(const RowBlocks& rows, uint64_t begin, uint64_t end) {
  Spans spans;
  for (uint64_t at = begin; at < end;) {
    const std::span<const float> part = rows.RowsFrom(at, end - at);
    spans.push_back(std::as_bytes(part));
    at += part.size() / rows.width();
  }
  return spans;
}

// Index rows of the blocks that the tokens [begin, end) complete.
std::pair<uint64_t, uint64_t> IndexRange(uint64_t ratio, uint64_t begin, uint64_t end) {
  return {begin / ratio, end / ratio};
}

uint64_t RatioOf(const AttentionState& layer) {
  return layer.open_block.size() / layer.index_keys.width();
}

std::vector<PieceSource> SegmentPieces(const Sequence& state, uint64_t begin, uint64_t end) {
  std::vector<PieceSource> pieces;
  for (uint32_t i = 0; i < state.attention.size(); ++i) {
    const AttentionState& layer = state.attention[i];
    const auto [first, last] = IndexRange(RatioOf(layer), begin, end);
    pieces.push_back({PieceKind::kKeyRows, i, RowSpans(layer.keys, begin, end)});
    pieces.push_back({PieceKind::kValueRows, i, RowSpans(layer.values, begin, end)});
    pieces.push_back({PieceKind::kIndexRows, i, RowSpans(layer.index_keys, first, last)});
  }
  return pieces;
}

// The parts of a head that are made for it, and its pieces, which refer to them and to the state.
struct HeadParts {
  std::vector<std::byte> facts;
  std::vector<StoredSegment> segments;
  std::vector<StoredReply> replies;
  std::vector<PieceSource> pieces;
};

template <typename T>
void Put(const T& value, std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

HeadParts MakeHeadParts(const PrefixHead& head, const Sequence& state) {
  HeadParts parts;
  const std::span<const uint32_t> context = state.ngram_context.previous();
  Put(Facts{.tokens = state.length(),
            .turn = head.turn,
            .junction = head.junction,
            .next_position = state.next_position(),
            .context_ids = static_cast<uint32_t>(context.size()),
            .next_id = head.next_id},
      parts.facts);
  for (const uint32_t id : context) Put(id, parts.facts);
  for (const SegmentRef& segment : head.segments) {
    StoredSegment stored{.name = {}, .begin = segment.begin, .end = segment.end};
    std::copy_n(segment.name.begin(), sizeof(stored.name), stored.name);
    parts.segments.push_back(stored);
  }
  for (const ReplyNote& note : head.replies) {
    parts.replies.push_back(
        {note.begin, note.end, {note.digest.said[0], note.digest.said[1]}, note.digest.reasoning});
  }
  parts.pieces = {{PieceKind::kFacts, 0, {parts.facts}},
                  {PieceKind::kKeys, 0, {BytesOf(head.keys)}},
                  {PieceKind::kSegments, 0, {BytesOf(parts.segments)}},
                  {PieceKind::kReplies, 0, {BytesOf(parts.replies)}}};
  for (uint32_t i = 0; i < state.attention.size(); ++i) {
    const AttentionState& layer = state.attention[i];
    parts.pieces.push_back(
        {PieceKind::kAttention,
         i,
         {BytesOf(layer.open_block), std::as_bytes(std::span(layer.open_block_position))}});
  }
  for (uint32_t i = 0; i < state.linear.size(); ++i) {
    const LinearState& layer = state.linear[i];
    parts.pieces.push_back(
        {PieceKind::kLinear, i, {BytesOf(layer.conv), BytesOf(layer.recurrent)}});
  }
  for (uint32_t i = 0; i < state.ngram.size(); ++i) {
    parts.pieces.push_back({PieceKind::kNgram, i, {BytesOf(state.ngram[i].conv)}});
  }
  return parts;
}

template <typename T>
Result<std::vector<T>> ReadList(const io::File& file, const Piece& piece, PieceKind kind) {
  if (piece.kind != kind || piece.bytes % sizeof(T) != 0 || piece.bytes / sizeof(T) > kMostKeys) {
    return Damaged(file, "a piece is not what it should be");
  }
  std::vector<T> list(piece.bytes / sizeof(T));
  const std::array spans = {std::as_writable_bytes(std::span(list))};
  SS_RETURN_IF_ERROR(ReadPiece(file, piece, spans));
  return list;
}

// What ReadHead and ReadState both need of the facts.
Result<Facts> ReadFacts(const io::File& file, const Piece& piece, std::vector<uint32_t>& context) {
  SS_ASSIGN_OR_RETURN(const std::vector<uint32_t> words,
                      ReadList<uint32_t>(file, piece, PieceKind::kFacts));
  constexpr size_t kWords = sizeof(Facts) / sizeof(uint32_t);
  Facts facts;
  if (words.size() < kWords) return Damaged(file, "its facts are too short");
  std::memcpy(&facts, words.data(), sizeof(facts));
  if (words.size() != kWords + facts.context_ids) return Damaged(file, "its facts disagree");
  context.assign(words.begin() + kWords, words.end());
  return facts;
}

// One list of rows: piece `at` of every segment's table.
Status ReadRows(const PrefixHead& head, std::span<const io::File* const> files,
                const std::vector<std::vector<Piece>>& tables, size_t at, uint64_t ratio,
                RowBlocks& rows) {
  for (size_t s = 0; s < files.size(); ++s) {
    const auto [first, last] = IndexRange(ratio, head.segments[s].begin, head.segments[s].end);
    // Before memory is taken for them.
    if ((last - first) * rows.width() * sizeof(float) != tables[s][at].bytes) {
      return Damaged(*files[s], "of another geometry");
    }
    std::vector<std::span<std::byte>> spans;
    for (uint64_t left = last - first; left > 0;) {
      const std::span<float> part = rows.AppendRows(left);
      spans.push_back(std::as_writable_bytes(part));
      left -= part.size() / rows.width();
    }
    SS_RETURN_IF_ERROR(ReadPiece(*files[s], tables[s][at], spans));
  }
  return {};
}

}  // namespace

Result<std::string> PrefixFileName(const PrefixIdentity& identity, std::string_view kind,
                                   std::span<const PrefixKey> keys, uint64_t begin) {
  checkpoint::Sha256 hash;
  hash.Update(identity);
  hash.Update(std::as_bytes(std::span(kind)));
  hash.Update(std::as_bytes(std::span(&begin, 1)));
  hash.Update(std::as_bytes(keys));
  SS_ASSIGN_OR_RETURN(const std::string hex, hash.Hex());
  return hex.substr(0, 32);
}

uint64_t HeadBytes(const Sequence& state, const PrefixHead& head) {
  return PieceFileBytes(MakeHeadParts(head, state).pieces);
}

uint64_t SegmentBytes(const Sequence& state, uint64_t begin, uint64_t end) {
  return PieceFileBytes(SegmentPieces(state, begin, end));
}

Status WriteHead(const std::string& path, const PrefixIdentity& identity, const PrefixHead& head,
                 const Sequence& state) {
  return WritePieceFile(path, kHeadMagic, identity, MakeHeadParts(head, state).pieces);
}

Status WriteSegment(const std::string& path, const PrefixIdentity& identity, const Sequence& state,
                    uint64_t begin, uint64_t end) {
  return WritePieceFile(path, kRowsMagic, identity, SegmentPieces(state, begin, end));
}

Result<PrefixHead> ReadHead(const io::File& file, const PrefixIdentity& identity) {
  SS_ASSIGN_OR_RETURN(const std::vector<Piece> table, ReadPieceTable(file, kHeadMagic, identity));
  if (table.size() < 4) return Damaged(file, "pieces are missing");
  PrefixHead head;
  std::vector<uint32_t> context;
  SS_ASSIGN_OR_RETURN(const Facts facts, ReadFacts(file, table[0], context));
  SS_ASSIGN_OR_RETURN(head.keys, ReadList<PrefixKey>(file, table[1], PieceKind::kKeys));
  SS_ASSIGN_OR_RETURN(const std::vector<StoredSegment> segments,
                      ReadList<StoredSegment>(file, table[2], PieceKind::kSegments));
  SS_ASSIGN_OR_RETURN(const std::vector<StoredReply> replies,
                      ReadList<StoredReply>(file, table[3], PieceKind::kReplies));
  head.turn = facts.turn;
  head.junction = facts.junction != 0;
  head.next_id = facts.next_id;
  head.file_bytes = file.size();
  uint64_t at = 0;
  for (const StoredSegment& segment : segments) {
    const std::string name(segment.name, sizeof(segment.name));
    if (!IsPrefixName(name) || segment.begin != at || segment.end <= at) {
      return Damaged(file, "its segments do not join");
    }
    at = segment.end;
    head.segments.push_back({name, segment.begin, segment.end});
  }
  if (head.keys.empty() || facts.tokens != head.keys.size() || at != facts.tokens) {
    return Damaged(file, "its segments do not reach its end");
  }
  for (const StoredReply& reply : replies) {
    if (reply.begin > reply.end || reply.end > head.keys.size() + (facts.next_id != kNoId)) {
      return Damaged(file, "a reply lies outside");
    }
    head.replies.push_back(
        {.begin = reply.begin,
         .end = reply.end,
         .digest = {.said = {reply.said[0], reply.said[1]}, .reasoning = reply.reasoning}});
  }
  return head;
}

Result<PrefixHead> ReadHeadOfAny(const io::File& file) {
  SS_ASSIGN_OR_RETURN(const PrefixIdentity identity, ReadIdentity(file));
  return ReadHead(file, identity);
}

Status CheckSegment(const io::File& file, const PrefixIdentity& identity) {
  SS_RETURN_IF_ERROR(ReadPieceTable(file, kRowsMagic, identity));
  return {};
}

Status ReadState(const PrefixHead& head, const io::File& head_file,
                 std::span<const io::File* const> segments, ThreadPool& threads,
                 Sequence& sequence) {
  SS_ASSIGN_OR_RETURN(const PrefixIdentity identity, ReadIdentity(head_file));
  SS_ASSIGN_OR_RETURN(const std::vector<Piece> table,
                      ReadPieceTable(head_file, kHeadMagic, identity));
  std::vector<std::vector<Piece>> tables;
  for (const io::File* segment : segments) {
    SS_ASSIGN_OR_RETURN(tables.emplace_back(), ReadPieceTable(*segment, kRowsMagic, identity));
    if (tables.back().size() != 3 * sequence.attention.size()) {
      return Damaged(*segment, "of another geometry");
    }
  }
  constexpr size_t kLayersAt = 4;
  if (table.size() !=
      kLayersAt + sequence.attention.size() + sequence.linear.size() + sequence.ngram.size()) {
    return Damaged(head_file, "of another geometry");
  }
  std::vector<uint32_t> context;
  SS_ASSIGN_OR_RETURN(const Facts facts, ReadFacts(head_file, table[0], context));
  if (context.size() != sequence.ngram_context.previous().size()) {
    return Damaged(head_file, "of another geometry");
  }

  sequence.BeginPass();
  std::vector<std::function<Status()>> tasks;
  const auto bytes = [](auto& values) -> std::span<std::byte> {
    return std::as_writable_bytes(std::span(values));
  };
  size_t at = kLayersAt;
  for (size_t i = 0; i < sequence.attention.size(); ++i, ++at) {
    AttentionState& layer = sequence.attention[i];
    tasks.push_back([&, at] {
      const std::array spans = {bytes(layer.open_block), bytes(layer.open_block_position)};
      return ReadPiece(head_file, table[at], spans);
    });
    const auto rows = [&, i](size_t which, uint64_t ratio, RowBlocks& list) {
      tasks.push_back([&, i, which, ratio] {
        return ReadRows(head, segments, tables, 3 * i + which, ratio, list);
      });
    };
    rows(0, 1, layer.keys);
    rows(1, 1, layer.values);
    rows(2, RatioOf(layer), layer.index_keys);
  }
  for (LinearState& layer : sequence.linear) {
    tasks.push_back([&, at] {
      const std::array spans = {bytes(layer.conv), bytes(layer.recurrent)};
      return ReadPiece(head_file, table[at], spans);
    });
    ++at;
  }
  for (NgramState& layer : sequence.ngram) {
    tasks.push_back([&, at] {
      const std::array spans = {bytes(layer.conv)};
      return ReadPiece(head_file, table[at], spans);
    });
    ++at;
  }
  std::vector<Status> results(tasks.size());
  threads.ParallelFor(tasks.size(), [&](size_t i) { results[i] = tasks[i](); });
  for (Status& result : results) SS_RETURN_IF_ERROR(std::move(result));
  std::vector<uint32_t> scratch(context.size() + 1);
  for (size_t i = context.size(); i > 0; --i) {
    sequence.ngram_context.Push(context[i - 1], scratch);
  }
  sequence.EndPass(facts.tokens, facts.next_position);
  return {};
}

}  // namespace slotstream::state
