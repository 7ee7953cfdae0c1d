#include "generate/mask_builder.h"

#include <algorithm>

namespace slotstream::generate {
namespace {

// What is kept between tokens. A text without bounds shares the vocabulary's masks, so this holds
// thousands of states.
constexpr size_t kMostKnownBytes = 4 << 20;

}  // namespace

size_t MaskBuilder::Local::bytes() const {
  const size_t mask = many == nullptr ? 0 : size_t{32} << 10;  // of 250,000 tokens
  return sizeof(Local) + sizeof(Key) + mask + 4 * (tokens.capacity() + exits.capacity());
}

void MaskBuilder::Build(const FrameStore& frames, const Stacks& stacks, TokenMask& mask) {
  if (known_bytes_ > kMostKnownBytes) {
    known_.clear();
    known_bytes_ = 0;
  }
  for (FrameId id : stacks) {
    if (id == kBottom) continue;
    if (const auto tag = machine_.TagOf(frames.at(id))) mask.Set(*tag);
    Collect(frames, id, nullptr, mask);
  }
}

void MaskBuilder::Collect(const FrameStore& frames, FrameId id, const Local* above,
                          TokenMask& mask) {
  for (; id != kBottom; id = frames.at(id).below) {
    const Local& local = Find(frames.at(id), above);
    for (uint32_t token : local.tokens) mask.Set(token);
    if (local.shared != nullptr) mask.Merge(*local.shared);
    if (local.many != nullptr) mask.Merge(*local.many);
    if (local.exits.empty()) return;
    above = &local;
  }
}

const MaskBuilder::Local& MaskBuilder::Find(const Frame& frame, const Local* above) {
  Key key{frame, above == nullptr ? 0 : above->number};
  key.frame.below = kBottom;
  auto& known = known_[key];
  if (known == nullptr) {
    known = std::make_unique<Local>();
    known->number = ++numbers_;
    const TextNode* text = machine_.TextOf(frame);
    if (text != nullptr && above == nullptr) {
      InText(*text, frame, *known);
    } else {
      Walk(key.frame, above, *known);
    }
    known_bytes_ += known->bytes();
  }
  return *known;
}

void MaskBuilder::InText(const TextNode& text, const Frame& frame, Local& local) {
  const TextTokens& tokens = vocabulary_.Text(text.form, frame.phase);
  for (const TextTokens::Exit& exit : tokens.exits) {
    const uint64_t count = frame.count + exit.added;
    if (count < text.min || count > text.max) continue;
    local.exits.push_back(exit.node);
    if (const uint32_t token = vocabulary_.trie().token(exit.node); token != TokenTrie::kNoToken) {
      local.tokens.push_back(token);
    }
  }
  const bool far = text.max == kUnbounded || frame.count + tokens.most_added < text.max;
  if (far && (text.max == kUnbounded || frame.count >= text.min)) {
    local.shared = &tokens.stays;
    return;
  }
  local.many = std::make_shared<TokenMask>(vocabulary_.tokenizer().vocab_size());
  for (const TextTokens::Stay& stay : vocabulary_.Stays(text.form, frame.phase)) {
    const uint64_t count = frame.count + stay.added;
    if (count <= text.max && TextHasEnd(text, count, stay.pending)) local.many->Set(stay.token);
  }
}

void MaskBuilder::Walk(const Frame& frame, const Local* above, Local& local) {
  scratch_.Clear();
  const FrameId id = scratch_.Intern(frame);
  if (above == nullptr) {
    WalkFrom(0, {id}, local);
  } else {
    Stacks start;
    machine_.Resume(scratch_, id, start);
    if (std::ranges::find(start, kBottom) != start.end()) local.exits = above->exits;
    for (uint32_t entry : above->exits) WalkFrom(entry, start, local);
  }
  // An exit within another's subtree is found twice.
  std::sort(local.exits.begin(), local.exits.end());
  local.exits.erase(std::unique(local.exits.begin(), local.exits.end()), local.exits.end());
}

void MaskBuilder::WalkFrom(uint32_t entry, const Stacks& start, Local& local) {
  const TokenTrie& trie = vocabulary_.trie();
  std::vector<uint32_t> ends;  // of the nodes above the current one
  if (levels_.empty()) levels_.emplace_back();
  levels_[0] = start;
  for (uint32_t node = entry + 1; node < trie.end(entry);) {
    while (!ends.empty() && node >= ends.back()) ends.pop_back();
    const size_t level = ends.size();
    if (levels_.size() < level + 2) levels_.emplace_back();
    Stacks& next = levels_[level + 1];
    machine_.Step(scratch_, levels_[level], trie.byte(node), next);
    if (next.empty()) {
      node = trie.end(node);
      continue;
    }
    if (std::ranges::find(next, kBottom) != next.end()) local.exits.push_back(node);
    if (const uint32_t token = trie.token(node); token != TokenTrie::kNoToken) {
      local.tokens.push_back(token);
    }
    ends.push_back(trie.end(node));
    ++node;
  }
}

}  // namespace slotstream::generate
