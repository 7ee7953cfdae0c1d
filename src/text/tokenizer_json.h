// Reads a Hugging Face tokenizer.json into a TokenizerSpec.
//
// Supported is what byte-level BPE checkpoints of the Qwen family use: normalizer NFC or none,
// pre-tokenizer Sequence [Split (a regex, Isolated), ByteLevel], model BPE, decoder ByteLevel.
// Anything else that would change ids or text is refused, never ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slotstream::text {

using TokenId = uint32_t;

// Ids lie below it: four times the largest vocabulary in use, and it bounds tables by id.
inline constexpr TokenId kTokenIdEnd = 1u << 20;

struct VocabEntry {
  std::string token;  // in the byte-level alphabet
  TokenId id = 0;
};

struct MergeRule {
  std::string left, right;  // in the byte-level alphabet
};

// A literal that is cut out of the text before everything else.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;  // left out when text is decoded without special tokens
};

struct TokenizerSpec {
  bool nfc = false;
  std::string split_pattern;
  std::vector<VocabEntry> vocab;  // ids distinct, tokens distinct, neither empty
  std::vector<MergeRule> merges;  // by rank, the first merges first
  std::vector<AddedToken> added;  // ids distinct, contents distinct, none empty
};

// `name` stands in messages, usually the file's path. Errors: kCorrupt (not JSON, a wrong type, a
// contradiction), kUnsupported (a feature named in the message), kResourceLimit.
Result<TokenizerSpec> ParseTokenizerJson(std::string_view bytes, std::string_view name);

}  // namespace slotstream::text
