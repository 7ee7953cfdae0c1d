// Files of checked pieces, the form of both kinds of files that hold states on disk: a beginning, a
// table of pieces with their checksums, the pieces one behind the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file.h"

namespace slotstream::state {

inline constexpr uint32_t kPrefixFormat = 1;

// SHA-256 of all that determines the bits of a state.
using PrefixIdentity = std::array<std::byte, 32>;

// What a piece holds. Heads have one of each of the first four, in this order, then one per layer
// of its kind; segments have three per attention layer.
enum class PieceKind : uint32_t {
  kFacts = 1,
  kKeys,
  kSegments,
  kReplies,
  kAttention,  // open block, position
  kLinear,     // convolution, recurrent state
  kNgram,      // convolution
  kKeyRows,
  kValueRows,
  kIndexRows,
};

// A piece's contents as the spans that make it up.
struct PieceSource {
  PieceKind kind;
  uint32_t index;  // of the layer of its kind
  std::vector<std::span<const std::byte>> spans;
};

uint64_t PieceFileBytes(std::span<const PieceSource> pieces);
// A piece of a file that is there.
struct Piece {
  PieceKind kind;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

// Writes and syncs a new file, and returns its table. `magic` has 8 bytes.
Result<std::vector<Piece>> WritePieceFile(const std::string& path, std::string_view magic,
                                          const PrefixIdentity& identity,
                                          std::span<const PieceSource> pieces);

// kCorrupt: damaged, or no file of this kind. kUnsupported: another identity, or another version.
Result<std::vector<Piece>> ReadPieceTable(const io::File& file, std::string_view magic,
                                          const PrefixIdentity& identity);
// What the file claims to be of; nothing is checked. Zeros of a file too short.
Result<PrefixIdentity> ReadIdentity(const io::File& file);
// Reads a piece into `spans`, which together have its size. kCorrupt: they have not, or a checksum
// error.
Status ReadPiece(const io::File& file, const Piece& piece,
                 std::span<const std::span<std::byte>> spans);

// The error of a file that is not what it should be: kCorrupt, with its path.
std::unexpected<Error> Damaged(const io::File& file, std::string_view what);

}  // namespace slotstream::state
