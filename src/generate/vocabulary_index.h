// A vocabulary made ready for constraints: a trie over the bytes of its ordinary tokens, and which
// of them may stand within free text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "generate/text_scanner.h"
#include "generate/token_mask.h"
#include "text/tokenizer.h"

namespace slotstream::generate {

class ClassTrie;

// Nodes in preorder: the first child of a node is the next one, its next sibling is at its end.
// Node 0 is the root. Of tokens with the same bytes the lowest id counts.
class TokenTrie {
 public:
  static constexpr uint32_t kNoToken = UINT32_MAX;
  // `tokens`: bytes, not empty, and ids.
  explicit TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> tokens);

  uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  uint8_t byte(uint32_t node) const { return bytes_[node]; }
  uint32_t token(uint32_t node) const { return tokens_[node]; }
  uint32_t end(uint32_t node) const { return ends_[node]; }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> tokens_, ends_;
};

// What tokens do in a state of a text scanner. `added` as in ScanStep.
struct TextTokens {
  struct Stay {
    uint32_t token;
    uint16_t added;
    uint8_t pending;  // see PendingBytes
  };
  struct Exit {
    uint32_t node;  // of the trie: the text ends with its byte
    uint16_t added;
  };
  // From here on tokens are few enough to be looked at one by one.
  static constexpr unsigned kLong = 17;

  TokenMask stays;            // tokens that leave the text open
  std::vector<Stay> pending;  // of these, those with pending bytes
  std::vector<Stay> longest;  // and those that add kLong or more
  std::vector<Exit> exits;    // by node
  unsigned most_added = 0;
};

// Belongs to one thread; the tokenizer must outlive it. See ConstraintBytes for its size.
class VocabularyIndex {
 public:
  explicit VocabularyIndex(const text::Tokenizer& tokenizer);

  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const TokenTrie& trie() const { return trie_; }
  // The ids of added tokens that are text, such as <tool_call>, by their literal.
  const std::map<std::string, uint32_t>& tags() const { return tags_; }
  // Ordinary tokens with a ">" that isn't their last byte: only these can complete a tag and go on.
  const std::vector<uint32_t>& beyond_tags() const { return beyond_tags_; }

  // Made when first asked for.
  std::shared_ptr<const TextTokens> Text(TextForm form, uint8_t state);
  // Of its `stays` those without pending bytes that add at most `most`, for texts near their
  // longest.
  std::shared_ptr<const TokenMask> Within(TextForm form, uint8_t state, uint64_t most);
  // Null where the classes are so many that it would be little smaller than the trie.
  std::shared_ptr<const ClassTrie> Classes(TextForm form, const std::vector<char32_t>& classes);

 private:
  using Key = std::pair<TextForm, uint8_t>;
  using Levels = std::vector<TokenMask>;  // by what is added at most, below TextTokens::kLong

  const text::Tokenizer& tokenizer_;
  TokenTrie trie_;
  std::map<std::string, uint32_t> tags_;
  std::vector<uint32_t> beyond_tags_;
  std::map<Key, std::shared_ptr<const TextTokens>> texts_;
  std::map<Key, std::shared_ptr<const Levels>> levels_;
  std::map<std::pair<TextForm, std::vector<char32_t>>, std::shared_ptr<const ClassTrie>> classes_;
};

}  // namespace slotstream::generate
