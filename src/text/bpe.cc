#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace slotstream::text {
namespace {

// Up to here all pairs are scanned after every merge, without a heap. Of the words that miss the
// cache in source code and English 98% have 24 bytes or fewer, so the border hardly matters.
constexpr size_t kShortWord = 32;

constexpr uint32_t kEnd = UINT32_MAX;  // no neighbour

using Ids = std::unordered_map<std::string_view, TokenId>;

}  // namespace

size_t Bpe::Slot(uint64_t pair) const {
  // Fibonacci hashing: the multiplier is 2^64 over the golden ratio.
  return (pair * 0x9E3779B97F4A7C15u) >> shift_;
}

void Bpe::AddRule(TokenId left, TokenId right, uint32_t rank, TokenId merged) {
  const uint64_t pair = uint64_t{left} << 32 | right;
  size_t slot = Slot(pair);
  while (rules_[slot].pair != kNoPair && rules_[slot].pair != pair) {
    slot = (slot + 1) & (rules_.size() - 1);
  }
  // Of a rule given twice the later rank holds, as in Hugging Face's.
  rules_[slot] = {pair, rank, merged};
}

const Bpe::Rule& Bpe::FindRule(TokenId left, TokenId right) const {
  const uint64_t pair = uint64_t{left} << 32 | right;
  size_t slot = Slot(pair);
  while (rules_[slot].pair != kNoPair && rules_[slot].pair != pair) {
    slot = (slot + 1) & (rules_.size() - 1);
  }
  return rules_[slot];
}

Result<Bpe> Bpe::Build(const TokenizerSpec& spec) {
  Ids ids;
  ids.reserve(spec.vocab.size());
  for (const VocabEntry& entry : spec.vocab) ids.emplace(entry.token, entry.id);

  Bpe bpe;
  std::array<bool, 256> known{};
  for (const VocabEntry& entry : spec.vocab) {
    const Scalar scalar = NextScalar(entry.token);
    if (scalar.length != entry.token.size()) continue;
    if (const auto byte = AlphabetByte(scalar.code_point)) {
      bpe.byte_ids_[*byte] = entry.id;
      known[*byte] = true;
    }
  }
  if (const auto missing = std::find(known.begin(), known.end(), false); missing != known.end()) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("model.vocab has no token for byte {:#04x}", missing - known.begin()));
  }

  const size_t slots = std::bit_ceil(2 * spec.merges.size() + 2);
  bpe.rules_.resize(slots);
  bpe.shift_ = 64 - std::countr_zero(slots);
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const MergeRule& rule = spec.merges[rank];
    const auto left = ids.find(rule.left), right = ids.find(rule.right);
    const auto merged = ids.find(rule.left + rule.right);
    if (left == ids.end() || right == ids.end() || merged == ids.end()) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("model.merges[{}]: {:?} + {:?} or their union is not in model.vocab",
                              rank, rule.left, rule.right));
    }
    bpe.AddRule(left->second, right->second, static_cast<uint32_t>(rank), merged->second);
  }
  return bpe;
}

void Bpe::EncodeWord(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (word.size() <= kShortWord) {
    EncodeShort(word, scratch, out);
  } else {
    EncodeLong(word, scratch, out);
  }
}

void Bpe::EncodeShort(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (char byte : word)
    symbols.push_back({byte_ids_[static_cast<uint8_t>(byte)], kNoRank, 0, 0, 0});
  auto look_up = [&](size_t i) {
    symbols[i].rank = kNoRank;
    if (i + 1 == symbols.size()) return;
    const Rule& rule = FindRule(symbols[i].id, symbols[i + 1].id);
    symbols[i].rank = rule.rank;
    symbols[i].merged = rule.merged;
  };
  for (size_t i = 0; i < symbols.size(); ++i) look_up(i);
  while (symbols.size() > 1) {
    const auto best =
        std::min_element(symbols.begin(), symbols.end(),
                         [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best->rank == kNoRank) break;
    best->id = best->merged;
    const auto at = static_cast<size_t>(best - symbols.begin());
    symbols.erase(best + 1);
    look_up(at);
    if (at > 0) look_up(at - 1);
  }
  for (const auto& symbol : symbols) out.push_back(symbol.id);
}

void Bpe::EncodeLong(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  const auto size = static_cast<uint32_t>(word.size());
  for (uint32_t i = 0; i < size; ++i) {
    symbols.push_back({byte_ids_[static_cast<uint8_t>(word[i])], kNoRank, 0, i == 0 ? kEnd : i - 1,
                       i + 1 == size ? kEnd : i + 1});
  }
  auto later = [](const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  auto offer = [&](uint32_t left) {
    if (left == kEnd || symbols[left].next == kEnd) return;
    const TokenId left_id = symbols[left].id, right_id = symbols[symbols[left].next].id;
    const Rule& rule = FindRule(left_id, right_id);
    if (rule.rank == kNoRank) return;
    heap.push_back({rule.rank, left, left_id, right_id});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (uint32_t i = 0; i < size; ++i) offer(i);

  constexpr TokenId kGone = UINT32_MAX;  // the id of a symbol merged into its left neighbour
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const BpeScratch::Candidate top = heap.back();
    heap.pop_back();
    auto& left = symbols[top.position];
    if (left.id != top.left || left.next == kEnd || symbols[left.next].id != top.right) continue;
    auto& right = symbols[left.next];
    left.id = FindRule(top.left, top.right).merged;
    right.id = kGone;
    left.next = right.next;
    if (left.next != kEnd) symbols[left.next].previous = top.position;
    offer(left.previous);
    offer(top.position);
  }
  for (uint32_t i = 0; i != kEnd; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace slotstream::text
