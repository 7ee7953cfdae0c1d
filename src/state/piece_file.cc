#include "state/piece_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/crc32c.h"
#include "io/file_writer.h"

namespace slotstream::state {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

struct FileStart {
  char magic[8];
  uint32_t version;
  uint32_t pieces;
  PrefixIdentity identity;
  uint32_t reserved;
  uint32_t crc;  // of all before, and of the table of pieces
};
static_assert(sizeof(FileStart) == 56);

struct StoredPiece {
  PieceKind kind;
  uint32_t index;
  uint64_t bytes;
  uint32_t crc;
  uint32_t reserved;
};
static_assert(sizeof(StoredPiece) == 24);

// More pieces, or larger ones, are no file of ours: a model has at most some hundred layers.
constexpr uint32_t kMostPieces = 4096;
constexpr uint64_t kMostPieceBytes = uint64_t{1} << 36;

uint32_t StartCrc(FileStart start, std::span<const StoredPiece> table) {
  start.crc = 0;
  return Crc32c(std::as_bytes(table), Crc32c(std::as_bytes(std::span(&start, 1))));
}

// The pieces follow their table without gaps.
std::vector<Piece> PiecesOf(std::span<const StoredPiece> table) {
  std::vector<Piece> pieces;
  uint64_t offset = sizeof(FileStart) + table.size_bytes();
  for (const StoredPiece& stored : table) {
    pieces.push_back({stored.kind, offset, stored.bytes, stored.crc});
    offset += stored.bytes;
  }
  return pieces;
}

}  // namespace

uint64_t PieceFileBytes(std::span<const PieceSource> pieces) {
  uint64_t bytes = sizeof(FileStart) + pieces.size() * sizeof(StoredPiece);
  for (const PieceSource& piece : pieces) {
    for (const auto& span : piece.spans) bytes += span.size();
  }
  return bytes;
}

Result<std::vector<Piece>> WritePieceFile(const std::string& path, std::string_view magic,
                                          const PrefixIdentity& identity,
                                          std::span<const PieceSource> pieces) {
  std::vector<StoredPiece> table;
  for (const PieceSource& source : pieces) {
    StoredPiece piece{source.kind, source.index, 0, 0, 0};
    for (const auto& span : source.spans) {
      piece.bytes += span.size();
      piece.crc = Crc32c(span, piece.crc);
    }
    table.push_back(piece);
  }
  FileStart start{.magic = {},
                  .version = kPrefixFormat,
                  .pieces = static_cast<uint32_t>(table.size()),
                  .identity = identity,
                  .reserved = 0,
                  .crc = 0};
  std::ranges::copy(magic, start.magic);
  start.crc = StartCrc(start, table);
  SS_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileWriter> writer, io::FileWriter::Create(path));
  SS_RETURN_IF_ERROR(writer->Append(std::as_bytes(std::span(&start, 1))));
  SS_RETURN_IF_ERROR(writer->Append(std::as_bytes(std::span(table))));
  for (const PieceSource& source : pieces) {
    for (const auto& span : source.spans) SS_RETURN_IF_ERROR(writer->Append(span));
  }
  SS_RETURN_IF_ERROR(writer->Sync());
  return PiecesOf(table);
}

std::unexpected<Error> Damaged(const io::File& file, std::string_view what) {
  return Fail(ErrorCode::kCorrupt, fmt::format("{}: {}", file.path(), what));
}

Result<std::vector<Piece>> ReadPieceTable(const io::File& file, std::string_view magic,
                                          const PrefixIdentity& identity) {
  FileStart start;
  if (file.size() < sizeof(start)) return Damaged(file, "shorter than its beginning");
  SS_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(&start, 1))));
  if (std::string_view(start.magic, sizeof(start.magic)) != magic) {
    return Damaged(file, "not a file of this kind");
  }
  if (start.version != kPrefixFormat) {
    return Fail(ErrorCode::kUnsupported, fmt::format("{}: format {}, but this program knows {}",
                                                     file.path(), start.version, kPrefixFormat));
  }
  if (start.pieces > kMostPieces ||
      file.size() < sizeof(start) + start.pieces * sizeof(StoredPiece)) {
    return Damaged(file, "its table of contents does not fit in it");
  }
  std::vector<StoredPiece> table(start.pieces);
  SS_RETURN_IF_ERROR(file.ReadAt(sizeof(start), std::as_writable_bytes(std::span(table))));
  if (StartCrc(start, table) != start.crc) return Damaged(file, "its beginning is damaged");
  if (start.identity != identity) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: of another model or compute mode", file.path()));
  }
  for (const StoredPiece& stored : table) {
    if (stored.bytes > kMostPieceBytes) return Damaged(file, "a piece is too large");
  }
  std::vector<Piece> pieces = PiecesOf(table);
  const uint64_t end = pieces.empty() ? sizeof(start) : pieces.back().offset + pieces.back().bytes;
  if (end != file.size()) return Damaged(file, "truncated, or longer than it says");
  return pieces;
}

Result<PrefixIdentity> ReadIdentity(const io::File& file) {
  FileStart start = {};
  if (file.size() >= sizeof(start)) {
    SS_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(&start, 1))));
  }
  return start.identity;
}

Status ReadPiece(const io::File& file, const Piece& piece,
                 std::span<const std::span<std::byte>> spans) {
  uint64_t bytes = 0;
  for (const std::span<std::byte> span : spans) bytes += span.size();
  if (bytes != piece.bytes) return Damaged(file, "of another geometry");
  uint64_t offset = piece.offset;
  uint32_t crc = 0;
  for (const std::span<std::byte> span : spans) {
    SS_RETURN_IF_ERROR(file.ReadAt(offset, span));
    crc = Crc32c(span, crc);
    offset += span.size();
  }
  if (crc != piece.crc) {
    return Damaged(file,
                   fmt::format("checksum error in the {} bytes at {}", piece.bytes, piece.offset));
  }
  return {};
}

}  // namespace slotstream::state
