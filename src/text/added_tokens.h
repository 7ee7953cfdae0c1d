// Finds the literals of added tokens in text: leftmost, and of those the longest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer_json.h"

namespace slotstream::text {

// A half-open range of bytes of a text.
struct TextRange {
  size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

struct AddedTokenMatch {
  TextRange range;
  TokenId id = 0;
};

// A trie of the literals. Immutable and thread-safe.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(const std::vector<AddedToken>& tokens);

  // The first match at or after `from` that touches none of the `literal` ranges, which must be
  // sorted and apart. Time: bytes skipped times the longest literal, at worst.
  std::optional<AddedTokenMatch> Find(std::string_view text, size_t from,
                                      std::span<const TextRange> literal) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t first_child = kNone, next_sibling = kNone;
    TokenId id = kNone;  // of the literal that ends here
    char byte = 0;
  };

  uint32_t Child(uint32_t node, char byte) const;
  uint32_t AddChild(uint32_t node, char byte);

  std::vector<Node> nodes_;               // nodes_[0] is the root
  std::array<uint32_t, 256> first_node_;  // by first byte: its node, or kNone
};

}  // namespace slotstream::text
