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
  Put(Facts{.tokens = head.keys.size(),
            .turn = head.turn,
            .junction = head.junction,
            .next_position = head.next_position,
            .context_ids = static_cast<uint32_t>(head.context.size()),
            .next_id = head.next_id},
      parts.facts);
  for (const uint32_t id : head.context) Put(id, parts.facts);
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

Result<std::vector<Piece>> WriteHead(const std::string& path, const PrefixIdentity& identity,
                                     const PrefixHead& head, const Sequence& state) {
  return WritePieceFile(path, kHeadMagic, identity, MakeHeadParts(head, state).pieces);
}

Result<std::vector<Piece>> WriteSegment(const std::string& path, const PrefixIdentity& identity,
                                        const Sequence& state, uint64_t begin, uint64_t end) {
  return WritePieceFile(path, kRowsMagic, identity, SegmentPieces(state, begin, end));
}

Result<PrefixHead> ReadHead(const io::File& file, const PrefixIdentity& identity) {
  PrefixHead head;
  SS_ASSIGN_OR_RETURN(head.pieces, ReadPieceTable(file, kHeadMagic, identity));
  const std::vector<Piece>& table = head.pieces;
  if (table.size() < kFirstLayerPiece) return Damaged(file, "pieces are missing");
  SS_ASSIGN_OR_RETURN(const Facts facts, ReadFacts(file, table[0], head.context));
  SS_ASSIGN_OR_RETURN(head.keys, ReadList<PrefixKey>(file, table[1], PieceKind::kKeys));
  SS_ASSIGN_OR_RETURN(const std::vector<StoredSegment> segments,
                      ReadList<StoredSegment>(file, table[2], PieceKind::kSegments));
  SS_ASSIGN_OR_RETURN(const std::vector<StoredReply> replies,
                      ReadList<StoredReply>(file, table[3], PieceKind::kReplies));
  head.turn = facts.turn;
  head.junction = facts.junction != 0;
  head.next_id = facts.next_id;
  head.next_position = facts.next_position;
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

Result<std::vector<Piece>> ReadSegmentTable(const io::File& file, const PrefixIdentity& identity) {
  return ReadPieceTable(file, kRowsMagic, identity);
}

}  // namespace slotstream::state
