// Byte-pair merging: a word's bytes become tokens by merging the adjacent pair of lowest rank, the
// leftmost of equals, until no pair has a rule.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_json.h"

namespace slotstream::text {

// Working memory of EncodeWord, kept from word to word. Belongs to one thread.
struct BpeScratch {
  struct Symbol {
    TokenId id;
    uint32_t rank;  // of the rule for this symbol and the next one
    TokenId merged;
    uint32_t previous, next;
  };
  struct Candidate {
    uint32_t rank;
    uint32_t position;
    TokenId left, right;  // to tell a candidate that later merges made stale
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// Immutable and thread-safe.
class Bpe {
 public:
  // Errors: kCorrupt (a byte without a token, a rule about a token that isn't in the vocabulary).
  static Result<Bpe> Build(const TokenizerSpec& spec);

  // Appends the tokens of `word`, which has fewer than 2^31 bytes. Time: quadratic for a few dozen
  // bytes, n log n beyond.
  void EncodeWord(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;

 private:
  // An open-addressing table of rules; the key is the pair of ids.
  struct Rule {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank;
    TokenId merged = 0;
  };
  static constexpr uint64_t kNoPair = UINT64_MAX;
  static constexpr uint32_t kNoRank = UINT32_MAX;

  void AddRule(TokenId left, TokenId right, uint32_t rank, TokenId merged);
  const Rule& FindRule(TokenId left, TokenId right) const;
  size_t Slot(uint64_t pair) const;
  void EncodeShort(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;
  void EncodeLong(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;

  std::array<TokenId, 256> byte_ids_{};
  std::vector<Rule> rules_;  // a power of two, at most half full
  int shift_ = 0;            // 64 minus the table's logarithm
};

}  // namespace slotstream::text
