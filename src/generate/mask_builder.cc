#include "generate/mask_builder.h"

#include <algorithm>
#include <utility>

#include "generate/constraint_memory.h"
#include "generate/pattern_text.h"

namespace slotstream::generate {

size_t MaskBuilder::BytesOf(const Local& local) const {
  // A mask of the vocabulary's index counts too: it may be kept alive by this alone.
  const size_t mask = local.many == nullptr ? 0 : vocabulary_.tokenizer().vocab_size() / 8;
  return sizeof(Local) + sizeof(Key) + mask +
         4 * (local.tokens.capacity() + local.exits.capacity());
}

void MaskBuilder::Forget() {
  known_.clear();
  known_bytes_ = 0;
}

void MaskBuilder::Build(const FrameStore& frames, const Stacks& stacks, TokenMask& mask) {
  const size_t most = MostMaskBytes(vocabulary_.tokenizer().vocab_size());
  for (FrameId id : stacks) {
    if (known_bytes_ > most) Forget();
    if (id == kBottom) continue;
    if (const auto tag = machine_.TagOf(frames.at(id))) mask.Set(*tag);
    Collect(frames, id, nullptr, mask);
  }
}

void MaskBuilder::Collect(const FrameStore& frames, FrameId id, const Local* above,
                          TokenMask& mask) {
  for (; id != kBottom; id = frames.at(id).below) {
    const Local& local = Find(frames, frames.at(id), above);
    for (uint32_t token : local.tokens) mask.Set(token);
    if (local.many != nullptr) mask.Merge(*local.many);
    if (local.exits.empty()) return;
    above = &local;
  }
}

const MaskBuilder::Local& MaskBuilder::Find(const FrameStore& frames, const Frame& frame,
                                            const Local* above) {
  Key key{frame, above == nullptr ? 0 : above->number};
  key.frame.below = kBottom;
  auto& known = known_[key];
  if (known == nullptr) {
    known = std::make_unique<Local>();
    known->number = ++numbers_;
    const TextNode* text = above == nullptr ? machine_.TextOf(frame) : nullptr;
    if (text == nullptr) {
      Walk(frames, frame, above, *known);
    } else if (PatternRun* pattern = machine_.PatternOf(frame)) {
      InPattern(*text, *pattern, frame, *known);
    } else {
      InText(*text, frame, *known);
    }
    const size_t words = vocabulary_.tokenizer().vocab_size() / 32;  // of a mask
    if (known->tokens.size() > words && known->many == nullptr) {
      auto many = std::make_shared<TokenMask>(vocabulary_.tokenizer().vocab_size());
      for (uint32_t token : std::exchange(known->tokens, {})) many->Set(token);
      known->many = std::move(many);
    }
    known_bytes_ += BytesOf(*known);
  }
  return *known;
}

void MaskBuilder::InText(const TextNode& text, const Frame& frame, Local& local) {
  const auto tokens = vocabulary_.Text(text.form, frame.phase);
  for (const TextTokens::Exit& exit : tokens->exits) {
    const uint64_t count = frame.count + exit.added;
    if (count < text.min || count > text.max) continue;
    local.exits.push_back(exit.node);
    if (const uint32_t token = vocabulary_.trie().token(exit.node); token != TokenTrie::kNoToken) {
      local.tokens.push_back(token);
    }
  }
  const uint64_t room = text.max == kUnbounded ? kUnbounded : text.max - frame.count;
  if (room > tokens->most_added + kMostPendingBytes) {
    local.many = {tokens, &tokens->stays};
    return;
  }
  local.many = vocabulary_.Within(text.form, frame.phase, room);
  for (const TextTokens::Stay& stay : tokens->pending) {
    const uint64_t count = frame.count + stay.added;
    if (count <= text.max && TextHasEnd(text, count, stay.pending)) {
      local.tokens.push_back(stay.token);
    }
  }
}

// As WalkFrom, but a state is three numbers, not frames: a wide pattern takes most of the trie.
void MaskBuilder::InPattern(const TextNode& text, PatternRun& pattern, const Frame& frame,
                            Local& local) {
  struct Level {
    uint32_t end;
    PatternTextState state;
  };
  const TokenTrie& trie = vocabulary_.trie();
  auto many = std::make_shared<TokenMask>(vocabulary_.tokenizer().vocab_size());
  std::vector<Level> path = {
      {trie.end(0), {frame.phase, static_cast<uint32_t>(frame.at), frame.y}}};
  for (uint32_t node = 1; node < trie.size();) {
    while (node >= path.back().end) path.pop_back();
    PatternTextState state = path.back().state;
    const auto kind = StepPatternText(text.form, pattern, state, trie.byte(node));
    const bool ends = kind == ScanStep::Kind::kEnd ||
                      (kind == ScanStep::Kind::kStay && MayEndHere(text.form, pattern, state));
    if (ends) local.exits.push_back(node);
    if (kind != ScanStep::Kind::kReject && trie.token(node) != TokenTrie::kNoToken) {
      many->Set(trie.token(node));
    }
    if (kind == ScanStep::Kind::kStay) {
      path.push_back({trie.end(node), state});
      ++node;
    } else {
      node = trie.end(node);
    }
  }
  local.many = std::move(many);
}

void MaskBuilder::Walk(const FrameStore& frames, const Frame& frame, const Local* above,
                       Local& local) {
  scratch_.Clear();
  most_scratch_ = kMostScratchBytes;
  const FrameId id = frames.CopyAlone(scratch_, frame);
  if (above == nullptr) {
    start_ = {id};
    WalkFrom(0, local);
  } else {
    machine_.Resume(scratch_, id, start_);
    if (std::ranges::find(start_, kBottom) != start_.end()) local.exits = above->exits;
    for (uint32_t entry : above->exits) WalkFrom(entry, local);
  }
  // An exit within another's subtree is found twice.
  std::sort(local.exits.begin(), local.exits.end());
  local.exits.erase(std::unique(local.exits.begin(), local.exits.end()), local.exits.end());
}

void MaskBuilder::WalkFrom(uint32_t entry, Local& local) {
  const TokenTrie& trie = vocabulary_.trie();
  std::vector<uint32_t> ends;  // of the nodes above the current one
  for (uint32_t node = entry + 1; node < trie.end(entry);) {
    while (!ends.empty() && node >= ends.back()) ends.pop_back();
    const size_t level = ends.size();
    if (levels_.size() <= level) levels_.emplace_back();
    Stacks& next = levels_[level];
    machine_.Step(scratch_, level == 0 ? start_ : levels_[level - 1], trie.byte(node), next);
    if (scratch_.bytes() > most_scratch_) DropScratch(level + 1);
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

void MaskBuilder::DropScratch(size_t levels) {
  FrameStore fresh;
  std::unordered_map<FrameId, FrameId> copied;
  const auto keep = [&](Stacks& stacks) {
    for (FrameId& id : stacks) id = scratch_.CopyTo(fresh, id, copied);
  };
  keep(start_);
  for (size_t i = 0; i < levels; ++i) keep(levels_[i]);
  scratch_ = std::move(fresh);
  most_scratch_ = std::max(kMostScratchBytes, 2 * scratch_.bytes());
}

}  // namespace slotstream::generate
