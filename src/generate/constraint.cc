#include "generate/constraint.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "generate/constraint_memory.h"

namespace slotstream::generate {
namespace {

using Phase = ConstraintRun::State::Phase;

constexpr std::string_view kReasoningEnd = "</think>";

// Bytes of `tag` that the text ends with after `byte`. Its first byte is nowhere else in it.
size_t Match(std::string_view tag, size_t matched, char byte) {
  if (byte == tag[matched]) return matched + 1;
  return byte == tag[0] ? 1 : 0;
}

}  // namespace

ConstraintRun::ConstraintRun(const Constraint& constraint, VocabularyIndex& vocabulary,
                             std::vector<uint32_t> stop_ids, bool in_reasoning)
    : constraint_(constraint),
      vocabulary_(vocabulary),
      stop_ids_(std::move(stop_ids)),
      machine_(constraint.grammar, vocabulary.tags()),
      masks_(machine_, vocabulary),
      most_frame_bytes_(kMostFrameBytes),
      mask_(vocabulary.tokenizer().vocab_size()) {
  if (in_reasoning) {
    state_.phase = Phase::kReasoning;
  } else if (!constraint.trigger.empty()) {
    state_.phase = Phase::kFree;
  } else {
    Hold(constraint.grammar.root());
  }
}

void ConstraintRun::Hold(NodeId node) {
  state_ = {Phase::kHeld, 0, std::make_shared<FrameStore>(), {}};
  state_.stacks = machine_.Start(*state_.frames, node);
  masks_.Forget();
}

void ConstraintRun::Restore(const State& state) {
  if (state.frames != state_.frames) masks_.Forget();
  state_ = state;
}

void ConstraintRun::DropFrames() {
  auto fresh = std::make_shared<FrameStore>();
  std::unordered_map<FrameId, FrameId> copied;
  for (FrameId& id : state_.stacks) id = state_.frames->CopyTo(*fresh, id, copied);
  state_.frames = std::move(fresh);
  most_frame_bytes_ = std::max(kMostFrameBytes, 2 * state_.frames->bytes());
  masks_.Forget();
}

std::string_view ConstraintRun::Tag() const {
  return state_.phase == Phase::kReasoning ? kReasoningEnd : std::string_view(constraint_.trigger);
}

bool ConstraintRun::Ends(uint32_t id) const {
  return std::ranges::find(stop_ids_, id) != stop_ids_.end();
}

bool ConstraintRun::MayEnd() const {
  if (state_.phase != Phase::kHeld) return state_.phase == Phase::kFree;
  return std::ranges::find(state_.stacks, kBottom) != state_.stacks.end();
}

bool ConstraintRun::Finished() const {
  return state_.phase == Phase::kHeld && state_.stacks == Stacks{kBottom};
}

// The bytes complete the tag and go on, so that text of two phases would be one token.
bool ConstraintRun::CrossesTag(std::string_view bytes) const {
  size_t matched = state_.matched;
  for (size_t i = 0; i < bytes.size(); ++i) {
    matched = Match(Tag(), matched, bytes[i]);
    if (matched == Tag().size()) return i + 1 < bytes.size();
  }
  return false;
}

void ConstraintRun::Filter(std::span<float> logits) {
  if (state_.phase != Phase::kHeld) return FilterFree(logits);
  mask_.Clear();
  masks_.Build(*state_.frames, state_.stacks, mask_);
  if (MayEnd() || mask_.Empty()) {
    for (uint32_t id : stop_ids_) {
      if (id < vocabulary_.tokenizer().vocab_size()) mask_.Set(id);
    }
  }
  mask_.Apply(logits);
}

void ConstraintRun::FilterFree(std::span<float> logits) const {
  constexpr float never = -std::numeric_limits<float>::infinity();
  for (uint32_t id : vocabulary_.beyond_tags()) {
    if (id < logits.size() && CrossesTag(*vocabulary_.tokenizer().TokenBytes(id))) {
      logits[id] = never;
    }
  }
  if (MayEnd()) return;
  for (uint32_t id : stop_ids_) {
    if (id < logits.size()) logits[id] = never;
  }
}

bool ConstraintRun::Accept(uint32_t id) {
  if (Ends(id)) return MayEnd();
  const text::Tokenizer& tokenizer = vocabulary_.tokenizer();
  const auto bytes = tokenizer.TokenBytes(id);
  if (!bytes) return false;
  if (state_.phase != Phase::kHeld) {
    if (CrossesTag(*bytes)) return false;
    AcceptFree(id);
    return true;
  }
  Stacks stacks = state_.stacks;
  if (tokenizer.IsAddedToken(id)) {
    machine_.StepTag(*state_.frames, state_.stacks, id, stacks);
  } else if (bytes->empty()) {
    return false;
  } else if (!Follow(*bytes, stacks)) {
    // Where there are more than kMostStacks within the token, those that take it may be the last.
    for (FrameId frame : state_.stacks) {
      stacks = {frame};
      if (Follow(*bytes, stacks)) break;
    }
  }
  if (stacks.empty()) return false;
  state_.stacks = std::move(stacks);
  if (state_.frames->bytes() > most_frame_bytes_) DropFrames();
  if (Finished() && !constraint_.trigger.empty()) state_ = {Phase::kFree, 0, nullptr, {}};
  return true;
}

bool ConstraintRun::Follow(std::string_view bytes, Stacks& stacks) {
  Stacks next;
  for (char byte : bytes) {
    if (stacks.empty()) return false;
    machine_.Step(*state_.frames, stacks, static_cast<uint8_t>(byte), next);
    stacks.swap(next);
  }
  return !stacks.empty();
}

void ConstraintRun::AcceptFree(uint32_t id) {
  // Readers of the reply don't see special tokens.
  if (vocabulary_.tokenizer().IsSpecial(id)) return;
  size_t matched = state_.matched;
  const std::string_view bytes = *vocabulary_.tokenizer().TokenBytes(id);
  for (char byte : bytes) matched = Match(Tag(), matched, byte);
  if (matched < Tag().size()) {
    state_.matched = static_cast<uint8_t>(matched);
  } else if (state_.phase == Phase::kFree) {
    Hold(constraint_.grammar.root());
  } else if (constraint_.trigger.empty()) {
    Hold(constraint_.after_reasoning);
  } else {
    state_ = {Phase::kFree, 0, nullptr, {}};
  }
}

}  // namespace slotstream::generate
