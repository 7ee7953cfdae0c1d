#include "generate/vocabulary_index.h"

#include <algorithm>
#include <string_view>

namespace slotstream::generate {
namespace {

// Lists of tokens with their lengths that are kept; one has 2 MB at 250,000 tokens.
constexpr size_t kMostStays = 8;

std::vector<std::pair<std::string, uint32_t>> OrdinaryTokens(const text::Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, uint32_t>> tokens;
  for (uint32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsAddedToken(id)) continue;
    if (const auto bytes = tokenizer.TokenBytes(id); bytes && !bytes->empty()) {
      tokens.emplace_back(*bytes, id);
    }
  }
  return tokens;
}

// Goes through all tokens from `state`: on_stay(token, state, added), on_exit(node, added).
template <typename OnStay, typename OnExit>
void ScanTokens(const TokenTrie& trie, TextForm form, uint8_t state, OnStay on_stay,
                OnExit on_exit) {
  struct Level {
    uint32_t end;
    uint8_t state;
    uint16_t added;
  };
  std::vector<Level> path = {{trie.end(0), state, 0}};
  for (uint32_t node = 1; node < trie.size();) {
    while (node >= path.back().end) path.pop_back();
    const Level& above = path.back();
    const ScanStep step = Scan(form, above.state, trie.byte(node));
    const auto added = static_cast<uint16_t>(above.added + step.added);
    if (step.kind == ScanStep::Kind::kStay) {
      if (trie.token(node) != TokenTrie::kNoToken) on_stay(trie.token(node), step.state, added);
      path.push_back({trie.end(node), step.state, added});
      ++node;
      continue;
    }
    if (step.kind == ScanStep::Kind::kEnd) on_exit(node, added);
    node = trie.end(node);
  }
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::pair<std::string, uint32_t>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  std::vector<uint32_t> path = {0};  // nodes of the last token's bytes, the root first
  bytes_.push_back(0);
  tokens_.push_back(kNoToken);
  ends_.push_back(0);
  std::string_view last;
  for (const auto& [text, id] : tokens) {
    const auto differ = std::mismatch(last.begin(), last.end(), text.begin(), text.end());
    const auto shared = static_cast<size_t>(differ.first - last.begin());
    while (path.size() > shared + 1) {
      ends_[path.back()] = size();
      path.pop_back();
    }
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(size());
      bytes_.push_back(static_cast<uint8_t>(text[i]));
      tokens_.push_back(kNoToken);
      ends_.push_back(0);
    }
    if (tokens_[path.back()] == kNoToken) tokens_[path.back()] = id;
    last = text;
  }
  for (uint32_t node : path) ends_[node] = size();
}

VocabularyIndex::VocabularyIndex(const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer), trie_(OrdinaryTokens(tokenizer)) {
  for (uint32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto bytes = tokenizer.TokenBytes(id);
    if (!bytes || bytes->empty()) continue;
    if (!tokenizer.IsAddedToken(id)) {
      if (bytes->substr(0, bytes->size() - 1).find('>') != std::string_view::npos) {
        beyond_tags_.push_back(id);
      }
    } else if (!tokenizer.IsSpecial(id)) {
      tags_.emplace(*bytes, id);
    }
  }
}

const TextTokens& VocabularyIndex::Text(TextForm form, uint8_t state) {
  auto& text = texts_[{form, state}];
  if (text == nullptr) {
    text = std::make_unique<TextTokens>();
    text->stays = TokenMask(tokenizer_.vocab_size());
    ScanTokens(
        trie_, form, state,
        [&](uint32_t token, uint8_t, uint16_t added) {
          text->stays.Set(token);
          text->most_added = std::max<unsigned>(text->most_added, added);
        },
        [&](uint32_t node, uint16_t added) { text->exits.push_back({node, added}); });
  }
  return *text;
}

const std::vector<TextTokens::Stay>& VocabularyIndex::Stays(TextForm form, uint8_t state) {
  if (stays_.size() >= kMostStays && !stays_.contains({form, state})) stays_.clear();
  auto& stays = stays_[{form, state}];
  if (stays == nullptr) {
    stays = std::make_unique<std::vector<TextTokens::Stay>>();
    ScanTokens(
        trie_, form, state,
        [&](uint32_t token, uint8_t next, uint16_t added) {
          stays->push_back({token, added, static_cast<uint8_t>(PendingBytes(next))});
        },
        [](uint32_t, uint16_t) {});
  }
  return *stays;
}

}  // namespace slotstream::generate
