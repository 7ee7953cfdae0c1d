#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace slotstream::text {
namespace {

// Ten times the largest tokenizer.json in use (250,000 tokens: 13 MB).
constexpr uint64_t kLargestFile = 128ull << 20;

// Places in a text are counted in 32 bits.
constexpr size_t kLargestText = (size_t{1} << 31) - 1;
// Merging a word takes 36 bytes for each of its own. Languages that write without spaces have
// sentences, and data in texts has digits and signs: real words are below a kilobyte.
constexpr size_t kLongestWord = 1 << 20;

Result<std::string> ReadFile(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: no such file", path.string()));
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    return Fail(ErrorCode::kIo, fmt::format("{}: not a regular file", path.string()));
  }
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return Fail(ErrorCode::kIo, fmt::format("{}: {}", path.string(), error.message()));
  if (size > kLargestFile) {
    return Fail(ErrorCode::kUnsupported, fmt::format("{}: {} bytes, more than a tokenizer's {}",
                                                     path.string(), size, kLargestFile));
  }
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return Fail(ErrorCode::kIo, fmt::format("{}: cannot be read", path.string()));
  }
  return bytes;
}

}  // namespace

Result<Tokenizer> Tokenizer::Load(const std::filesystem::path& path) {
  SS_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return FromJson(bytes, path.string());
}

Result<Tokenizer> Tokenizer::FromJson(std::string_view bytes, std::string_view name) {
  SS_ASSIGN_OR_RETURN(const TokenizerSpec spec, ParseTokenizerJson(bytes, name));
  auto named = [name](Error error) {
    error.message = fmt::format("{}: {}", name, error.message);
    return std::unexpected(std::move(error));
  };
  auto pretokenizer = Pretokenizer::Compile(spec.split_pattern);
  if (!pretokenizer) return named(std::move(pretokenizer).error());
  auto bpe = Bpe::Build(spec);
  if (!bpe) return named(std::move(bpe).error());
  return Tokenizer(spec, std::move(*pretokenizer), std::move(*bpe));
}

Tokenizer::Tokenizer(const TokenizerSpec& spec, Pretokenizer pretokenizer, Bpe bpe)
    : pretokenizer_(std::move(pretokenizer)),
      bpe_(std::move(bpe)),
      added_(spec.added),
      cache_(std::make_unique<SharedCache>()) {
  if (spec.nfc) nfc_.emplace();

  TokenId end = 0;
  for (const VocabEntry& entry : spec.vocab) end = std::max(end, entry.id + 1);
  for (const AddedToken& token : spec.added) end = std::max(end, token.id + 1);
  std::vector<std::string> by_id(end);
  flags_.resize(end);
  for (const VocabEntry& entry : spec.vocab) {
    by_id[entry.id] = AlphabetToBytes(entry.token);
    flags_[entry.id] = kPresent;
  }
  for (const AddedToken& token : spec.added) {
    by_id[token.id] = token.content;
    flags_[token.id] = static_cast<uint8_t>(kPresent | kAdded | (token.special ? kSpecial : 0));
    added_ids_.emplace(token.content, token.id);
  }
  offsets_.push_back(0);
  for (const std::string& token : by_id) {
    bytes_.append(token);
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                               std::span<const TextRange> literal) const {
  if (text.size() > kLargestText) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("a text of {} bytes can't be encoded, the most is {}", text.size(),
                            kLargestText));
  }
  std::unique_lock lock(cache_->mutex, std::try_to_lock);
  WordCache* cache = lock.owns_lock() ? &cache_->words : nullptr;
  std::vector<TokenId> out;
  BpeScratch scratch;
  try {
    size_t at = 0;
    while (at < text.size()) {
      const auto match = added_.Find(text, at, literal);
      const size_t end = match ? match->range.begin : text.size();
      SS_RETURN_IF_ERROR(EncodePiece(text.substr(at, end - at), cache, scratch, out));
      if (!match) break;
      out.push_back(match->id);
      at = match->range.end;
    }
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceLimit,
                fmt::format("no memory to encode a text of {} bytes", text.size()));
  }
  return out;
}

Result<std::vector<TokenId>> Tokenizer::EncodeUntrusted(std::string_view text) const {
  const TextRange all{0, text.size()};
  return Encode(text, std::span(&all, 1));
}

Status Tokenizer::EncodePiece(std::string_view piece, WordCache* cache, BpeScratch& scratch,
                              std::vector<TokenId>& out) const {
  std::string repaired, normalized;
  if (ValidPrefix(piece) != piece.size()) {
    AppendReplacingBroken(piece, repaired);
    piece = repaired;
  }
  if (nfc_) piece = nfc_->Normalize(piece, normalized);
  WordCursor words(pretokenizer_, piece);
  while (true) {
    SS_ASSIGN_OR_RETURN(const std::string_view word, words.Next());
    if (word.empty()) return {};
    if (word.size() > kLongestWord) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("a word of {} bytes can't be encoded, the most is {}", word.size(),
                              kLongestWord));
    }
    if (cache != nullptr) {
      if (const auto known = cache->Find(word); !known.empty()) {
        out.insert(out.end(), known.begin(), known.end());
        continue;
      }
    }
    const size_t before = out.size();
    bpe_.EncodeWord(word, scratch, out);
    if (cache != nullptr) cache->Insert(word, std::span(out).subspan(before));
  }
}

Result<std::string_view> Tokenizer::TokenBytes(TokenId id) const {
  if (id >= vocab_size() || flags_[id] == 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("token id {} has no token; the vocabulary ends at {}", id, vocab_size()));
  }
  return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

Result<std::string> Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes, text;
  for (TokenId id : ids) {
    SS_ASSIGN_OR_RETURN(const std::string_view token, TokenBytes(id));
    if (!skip_special || !IsSpecial(id)) bytes.append(token);
  }
  AppendReplacingBroken(bytes, text);
  return text;
}

std::optional<TokenId> Tokenizer::FindAddedToken(std::string_view literal) const {
  const auto found = added_ids_.find(std::string(literal));
  if (found == added_ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace slotstream::text
