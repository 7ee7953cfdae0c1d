#include "text/word_cache.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace slotstream::text {

WordCache::WordCache() : entries_(kEntries) {}

size_t WordCache::Slot(std::string_view word) {
  return std::hash<std::string_view>{}(word) % kEntries;
}

std::span<const TokenId> WordCache::Find(std::string_view word) const {
  if (word.empty() || word.size() > kLongestWord) return {};
  const Entry& entry = entries_[Slot(word)];
  if (entry.word_size != word.size() ||
      std::memcmp(entry.word.data(), word.data(), word.size()) != 0) {
    return {};
  }
  return std::span(entry.tokens).first(entry.token_count);
}

void WordCache::Insert(std::string_view word, std::span<const TokenId> tokens) {
  if (word.empty() || word.size() > kLongestWord || tokens.size() > kMostTokens) return;
  Entry& entry = entries_[Slot(word)];
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  entry.word_size = static_cast<uint8_t>(word.size());
  entry.token_count = static_cast<uint8_t>(tokens.size());
}

}  // namespace slotstream::text
