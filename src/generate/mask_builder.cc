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
  work_ = 0;
  for (FrameId id : stacks) {
    if (known_bytes_ > most) Forget();
    if (id == kBottom) continue;
    if (const auto tag = machine_.TagOf(frames.at(id))) mask.Set(*tag);
    if (work_ > most_work_) {
      OneByte(frames, id, mask);
    } else {
      Collect(frames, id, nullptr, mask);
    }
  }
}

void MaskBuilder::Collect(const FrameStore& frames, FrameId id, const Local* above,
                          TokenMask& mask) {
  for (; id != kBottom; id = frames.at(id).below) {
    const Local& local = Find(frames, frames.at(id), above);
    work_ += local.work;
    for (uint32_t token : local.tokens) mask.Set(token);
    if (local.many != nullptr) mask.Merge(*local.many);
    if (local.exits.empty() || work_ > most_work_) return;
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
    // Setting up, and merging a mask.
    known->work += vocabulary_.tokenizer().vocab_size() / 1024;
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
  local.work = tokens->exits.size() + tokens->pending.size();
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

// A state is three numbers, not frames: a wide pattern takes most of the vocabulary.
void MaskBuilder::InPattern(const TextNode& text, PatternRun& pattern, const Frame& frame,
                            Local& local) {
  const PatternTextState state{frame.phase, static_cast<uint32_t>(frame.at), frame.y};
  auto many = std::make_shared<TokenMask>(vocabulary_.tokenizer().vocab_size());
  bool done = false;
  if (state.part == 0 && pattern.Wide(state.set)) {
    const auto classes = vocabulary_.Classes(text.form, machine_.pattern_classes());
    done = classes != nullptr && WalkClasses(*classes, pattern, state.set, local, *many);
  }
  if (!done) WalkBytes(text.form, pattern, state, local, *many);
  local.many = std::move(many);
}

bool MaskBuilder::WalkClasses(const ClassTrie& classes, PatternRun& pattern, uint32_t set,
                              Local& local, TokenMask& mask) {
  struct Level {
    uint32_t end, set;
  };
  const TokenTrie& trie = vocabulary_.trie();
  std::vector<Level> path;
  for (uint32_t node = 0; node < classes.size();) {
    while (!path.empty() && node >= path.back().end) path.pop_back();
    if (node > 0) {
      local.work += pattern.StepWork(path.back().set);
      set = pattern.Step(path.back().set, classes.character(node));
      if (set == PatternRun::kDead) {
        node = classes.end(node);
        continue;
      }
    }
    classes.Merge(node, mask);
    for (const ClassTrie::Cut& cut : classes.cuts(node)) {
      if (MayGoOn(pattern, {cut.part, cut.bits, set})) mask.Set(cut.token);
    }
    local.work += classes.cuts(node).size();
    if (pattern.Complete(set)) {
      for (uint32_t exit : classes.exits(node)) {
        local.exits.push_back(exit);
        if (trie.token(exit) != TokenTrie::kNoToken) mask.Set(trie.token(exit));
      }
    }
    if (local.work > most_work_) return false;
    path.push_back({classes.end(node), set});
    ++node;
  }
  std::sort(local.exits.begin(), local.exits.end());
  return true;
}

void MaskBuilder::WalkBytes(TextForm form, PatternRun& pattern, PatternTextState state,
                            Local& local, TokenMask& mask) {
  struct Level {
    uint32_t end;
    PatternTextState state;
  };
  const TokenTrie& trie = vocabulary_.trie();
  std::vector<Level> path = {{trie.end(0), state}};
  for (uint32_t node = 1; node < trie.size();) {
    while (node >= path.back().end) path.pop_back();
    state = path.back().state;
    local.work += pattern.StepWork(state.set);
    const bool enough = local.work > most_work_;
    if (enough && path.size() > 1) {
      node = path[1].end;
      continue;
    }
    const auto kind = StepPatternText(form, pattern, state, trie.byte(node));
    const bool ends = kind == ScanStep::Kind::kEnd ||
                      (kind == ScanStep::Kind::kStay && MayEndHere(form, pattern, state) &&
                       GoesOnBehindText(trie, node));
    if (ends) local.exits.push_back(node);
    if (kind != ScanStep::Kind::kReject && trie.token(node) != TokenTrie::kNoToken) {
      mask.Set(trie.token(node));
    }
    if (kind == ScanStep::Kind::kStay && !enough) {
      path.push_back({trie.end(node), state});
      ++node;
    } else {
      node = trie.end(node);
    }
  }
}

void MaskBuilder::Walk(const FrameStore& frames, const Frame& frame, const Local* above,
                       Local& local) {
  scratch_.Clear();
  most_scratch_ = kMostScratchBytes;
  const FrameId id = frames.CopyAlone(scratch_, frame);
  const uint64_t begun = machine_.work();
  if (above == nullptr) {
    start_ = {id};
    WalkFrom(0, begun, local);
  } else {
    machine_.Resume(scratch_, id, start_);
    if (std::ranges::find(start_, kBottom) != start_.end()) local.exits = above->exits;
    for (uint32_t entry : above->exits) {
      if (machine_.work() - begun > most_work_) break;
      WalkFrom(entry, begun, local);
    }
    local.work = above->exits.size();
  }
  local.work += machine_.work() - begun;
  // An exit within another's subtree is found twice.
  std::sort(local.exits.begin(), local.exits.end());
  local.exits.erase(std::unique(local.exits.begin(), local.exits.end()), local.exits.end());
}

void MaskBuilder::WalkFrom(uint32_t entry, uint64_t begun, Local& local) {
  const TokenTrie& trie = vocabulary_.trie();
  std::vector<uint32_t> ends;  // of the nodes above the current one
  for (uint32_t node = entry + 1; node < trie.end(entry);) {
    while (!ends.empty() && node >= ends.back()) ends.pop_back();
    const size_t level = ends.size();
    const bool enough = machine_.work() - begun > most_work_;
    if (enough && level > 0) {
      node = ends.front();
      continue;
    }
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
    if (enough) {
      node = trie.end(node);
      continue;
    }
    ends.push_back(trie.end(node));
    ++node;
  }
}

void MaskBuilder::OneByte(const FrameStore& frames, FrameId id, TokenMask& mask) {
  scratch_.Clear();
  start_ = {frames.CopyAlone(scratch_, frames.at(id))};
  const TokenTrie& trie = vocabulary_.trie();
  Stacks next;
  for (uint32_t node = 1; node < trie.size(); node = trie.end(node)) {
    if (trie.token(node) == TokenTrie::kNoToken) continue;
    machine_.Step(scratch_, start_, trie.byte(node), next);
    if (!next.empty()) mask.Set(trie.token(node));
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
