// The two kinds of files that hold states on disk; docs/FORMATS.md describes every byte.
//
// A head has what a state cannot share with a longer one; segments have rows of keys and values,
// are never changed, and may serve several heads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file.h"
#include "state/piece_file.h"
#include "state/prefix_tree.h"
#include "state/reply_note.h"
#include "state/sequence.h"

namespace slotstream::state {

// Rows of the tokens [begin, end) in the file NAME.rows.
struct SegmentRef {
  std::string name;  // 32 hexadecimal digits
  uint64_t begin = 0, end = 0;
  bool operator==(const SegmentRef&) const = default;
};

inline constexpr uint32_t kNoId = UINT32_MAX;

// Pieces of a head before those of layers.
inline constexpr size_t kFirstLayerPiece = 4;

// All of a head but the layers of the state.
struct PrefixHead {
  std::vector<PrefixKey> keys;
  std::vector<SegmentRef> segments;  // in order, without gaps, up to keys.size()
  std::vector<ReplyNote> replies;
  // The id behind the last key, where a reply ends with it: it was chosen but not read. kNoId:
  // none.
  uint32_t next_id = kNoId;
  std::vector<uint32_t> context = {};  // of n-grams, newest first
  int32_t next_position = 0;           // see Sequence
  bool junction = false;
  uint64_t turn = 1;
  std::vector<Piece> pieces = {};  // the table of its file
  uint64_t file_bytes = 0;
};

// 32 hexadecimal digits for the rows [begin, keys.size()) behind `keys`, or for the head (begin 0
// and `kind` another).
Result<std::string> PrefixFileName(const PrefixIdentity& identity, std::string_view kind,
                                   std::span<const PrefixKey> keys, uint64_t begin);

// Bytes that the two writers will write.
uint64_t HeadBytes(const Sequence& state, const PrefixHead& head);
uint64_t SegmentBytes(const Sequence& state, uint64_t begin, uint64_t end);

// Write and sync a new file, which nobody may see before the caller renames it; return its table.
Result<std::vector<Piece>> WriteHead(const std::string& path, const PrefixIdentity& identity,
                                     const PrefixHead& head, const Sequence& state);
Result<std::vector<Piece>> WriteSegment(const std::string& path, const PrefixIdentity& identity,
                                        const Sequence& state, uint64_t begin, uint64_t end);

// Reads what a head says of itself. kUnsupported: another identity or version. kCorrupt: damaged.
Result<PrefixHead> ReadHead(const io::File& file, const PrefixIdentity& identity);
// The same of any model.
Result<PrefixHead> ReadHeadOfAny(const io::File& file);
// Checks a segment's beginning and size. Errors as ReadHead.
Result<std::vector<Piece>> ReadSegmentTable(const io::File& file, const PrefixIdentity& identity);

}  // namespace slotstream::state
