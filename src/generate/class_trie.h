// A vocabulary by the classes of its characters: tokens that no pattern of a grammar tells apart
// lie in one place, so that a pattern goes through thousands of places instead of all bytes of all
// tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "generate/pattern_text.h"
#include "generate/text_scanner.h"
#include "generate/token_mask.h"
#include "generate/vocabulary_index.h"

namespace slotstream::generate {

// Immutable. Nodes in preorder as in TokenTrie: a node is what a text's characters from its
// beginning on are, the root none of them.
class ClassTrie {
 public:
  static constexpr size_t kNodeBytes = 6 * sizeof(uint32_t);
  // Within a character, or behind a backslash, when the token ends.
  struct Cut {
    uint32_t token;
    uint32_t bits;  // as in PatternTextState
    uint8_t part;
  };

  // `classes`: the first characters of each, rising, from 0 on. `form`: one that a pattern governs.
  // Null: more than `most_nodes`.
  static std::shared_ptr<const ClassTrie> Make(const TokenTrie& trie, TextForm form,
                                               std::span<const char32_t> classes, size_t vocab_size,
                                               size_t most_nodes);

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()) - 1; }
  uint32_t end(uint32_t node) const { return nodes_[node].end; }
  // A character of the node's class.
  char32_t character(uint32_t node) const { return nodes_[node].character; }
  // Adds the tokens whose whole text is the node's.
  void Merge(uint32_t node, TokenMask& mask) const;
  std::span<const Cut> cuts(uint32_t node) const {
    return std::span(cuts_).subspan(nodes_[node].cuts, nodes_[node + 1].cuts - nodes_[node].cuts);
  }
  // Nodes of the TokenTrie where the text may end if the pattern is complete at `node`. Those of a
  // text without a quote: where a token goes on with a line break.
  std::span<const uint32_t> exits(uint32_t node) const {
    return std::span(exits_).subspan(nodes_[node].exits,
                                     nodes_[node + 1].exits - nodes_[node].exits);
  }

 private:
  friend class ClassTrieMaker;
  static constexpr uint32_t kFew = UINT32_MAX;
  struct Node {
    uint32_t end = 0;
    char32_t character = 0;
    uint32_t tokens = 0, cuts = 0, exits = 0;  // the first ones
    uint32_t many = kFew;                      // or a mask for the tokens
  };
  std::vector<Node> nodes_;  // and one behind the last
  std::vector<uint32_t> tokens_, exits_;
  std::vector<Cut> cuts_;
  std::vector<TokenMask> many_;
};

// A text without a quote may end at this node: a token goes on with the line break that is behind
// it.
bool GoesOnBehindText(const TokenTrie& trie, uint32_t node);

}  // namespace slotstream::generate
