#include "generate/vocabulary_index.h"

#include <algorithm>
#include <utility>

#include "generate/class_trie.h"
#include "generate/constraint_memory.h"

namespace slotstream::generate {
namespace {

std::vector<std::pair<std::string_view, uint32_t>> OrdinaryTokens(
    const text::Tokenizer& tokenizer) {
  std::vector<std::pair<std::string_view, uint32_t>> tokens;
  tokens.reserve(tokenizer.vocab_size());
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

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> tokens) {
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
  bytes_.shrink_to_fit();
  tokens_.shrink_to_fit();
  ends_.shrink_to_fit();
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

std::shared_ptr<const TextTokens> VocabularyIndex::Text(TextForm form, uint8_t state) {
  if (const auto known = texts_.find({form, state}); known != texts_.end()) return known->second;
  if (texts_.size() >= kMostTexts) texts_.clear();
  auto text = std::make_shared<TextTokens>();
  text->stays = TokenMask(tokenizer_.vocab_size());
  ScanTokens(
      trie_, form, state,
      [&](uint32_t token, uint8_t next, uint16_t added) {
        text->stays.Set(token);
        text->most_added = std::max<unsigned>(text->most_added, added);
        const TextTokens::Stay stay{token, added, static_cast<uint8_t>(PendingBytes(next))};
        if (stay.pending > 0) text->pending.push_back(stay);
        if (added >= TextTokens::kLong) text->longest.push_back(stay);
      },
      [&](uint32_t node, uint16_t added) { text->exits.push_back({node, added}); });
  text->pending.shrink_to_fit();
  text->longest.shrink_to_fit();
  text->exits.shrink_to_fit();
  texts_[{form, state}] = text;
  return text;
}

std::shared_ptr<const TokenMask> VocabularyIndex::Within(TextForm form, uint8_t state,
                                                         uint64_t most) {
  if (most >= TextTokens::kLong) {
    const auto text = Text(form, state);
    auto mask = std::make_shared<TokenMask>(text->stays);
    for (const TextTokens::Stay& stay : text->longest) {
      if (stay.added > most) mask->Reset(stay.token);
    }
    for (const TextTokens::Stay& stay : text->pending) mask->Reset(stay.token);
    return mask;
  }
  if (levels_.size() >= kMostLevels && !levels_.contains({form, state})) levels_.clear();
  auto& levels = levels_[{form, state}];
  if (levels == nullptr) {
    auto made = std::make_shared<Levels>(TextTokens::kLong, TokenMask(tokenizer_.vocab_size()));
    ScanTokens(
        trie_, form, state,
        [&](uint32_t token, uint8_t next, uint16_t added) {
          if (added < TextTokens::kLong && PendingBytes(next) == 0) (*made)[added].Set(token);
        },
        [](uint32_t, uint16_t) {});
    for (size_t i = 1; i < made->size(); ++i) (*made)[i].Merge((*made)[i - 1]);
    levels = std::move(made);
  }
  return {levels, &(*levels)[most]};
}

std::shared_ptr<const ClassTrie> VocabularyIndex::Classes(TextForm form,
                                                          const std::vector<char32_t>& classes) {
  const auto key = std::pair(form, classes);
  if (const auto known = classes_.find(key); known != classes_.end()) return known->second;
  if (classes_.size() >= kMostClassTries) classes_.clear();
  const size_t vocab_size = tokenizer_.vocab_size();
  auto made = ClassTrie::Make(trie_, form, classes, vocab_size, MostClassNodes(vocab_size));
  classes_[key] = made;
  return made;
}

}  // namespace slotstream::generate
