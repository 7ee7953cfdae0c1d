// Text to token ids and back, as Hugging Face's tokenizers library does it for a byte-level BPE
// tokenizer.json (tests/tokenizer_parity.py compares the two).
//
// Encoding: added tokens are cut out of the text, every other piece is brought into Unicode form
// NFC and cut into words, and every word's bytes are merged into tokens. Text that isn't
// UTF-8 is encoded with U+FFFD in place of the broken bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/nfc.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_json.h"
#include "text/word_cache.h"

namespace slotstream::text {

// Immutable to its users and thread-safe.
class Tokenizer {
 public:
  // Reads a tokenizer.json. Errors: kNotFound, kIo, and those of FromJson.
  static Result<Tokenizer> Load(const std::filesystem::path& path);

  // `name` stands in messages. Errors: kCorrupt, kUnsupported, kResourceLimit.
  static Result<Tokenizer> FromJson(std::string_view bytes, std::string_view name);

  // The ids of `text`. Within the `literal` byte ranges (sorted, apart) nothing is taken for an
  // added token: there the text "<|im_end|>" is ten characters and no control token. Everything
  // else about them is as without ranges, so words may cross their borders.
  // Errors: kResourceLimit (2 GiB of text or more, or no memory).
  Result<std::vector<TokenId>> Encode(std::string_view text,
                                      std::span<const TextRange> literal = {}) const;

  // All of `text` literal: for text from a user that is encoded on its own.
  Result<std::vector<TokenId>> EncodeUntrusted(std::string_view text) const;

  // The bytes that `id` stands for; they may be part of a character. Valid as long as the
  // tokenizer. Errors: kInvalidArgument for an id without a token.
  Result<std::string_view> TokenBytes(TokenId id) const;

  // The text of `ids`, with U+FFFD in place of broken UTF-8. Errors: as TokenBytes.
  Result<std::string> Decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // One more than the highest id: ids from here on must never be sampled.
  TokenId vocab_size() const { return static_cast<TokenId>(offsets_.size() - 1); }

  // The id of an added token by its literal, e.g. "<|im_end|>".
  std::optional<TokenId> FindAddedToken(std::string_view literal) const;
  bool IsAddedToken(TokenId id) const { return id < vocab_size() && (flags_[id] & kAdded) != 0; }
  bool IsSpecial(TokenId id) const { return id < vocab_size() && (flags_[id] & kSpecial) != 0; }

 private:
  enum Flag : uint8_t { kPresent = 1, kAdded = 2, kSpecial = 4 };

  // The cache serves whichever caller finds it free; the others do without, with the same ids.
  struct SharedCache {
    std::mutex mutex;
    WordCache words;
  };

  Tokenizer(const TokenizerSpec& spec, Pretokenizer pretokenizer, Bpe bpe);
  Status EncodePiece(std::string_view piece, WordCache* cache, BpeScratch& scratch,
                     std::vector<TokenId>& out) const;

  std::optional<NfcNormalizer> nfc_;  // absent where the file asks for no normalization
  Pretokenizer pretokenizer_;
  Bpe bpe_;
  AddedTokenMatcher added_;
  std::string bytes_;              // of all tokens, by id
  std::vector<uint32_t> offsets_;  // of token id in bytes_; one more at the end
  std::vector<uint8_t> flags_;     // by id
  std::unordered_map<std::string, TokenId> added_ids_;
  std::unique_ptr<SharedCache> cache_;
};

}  // namespace slotstream::text
