#include "generate/grammar_machine.h"

#include <algorithm>
#include <utility>

#include "generate/constraint_memory.h"
#include "generate/machine_run.h"

namespace slotstream::generate {

bool TextHasEnd(const TextNode& text, uint64_t count, unsigned pending) {
  if (count >= text.min) return true;  // at once, or when the pending bytes are complete
  const uint64_t all = count + pending;
  // Another character makes content of what is pending; so does a line break, which is pending.
  return all < text.max || (all == text.max && all >= text.min);
}

GrammarMachine::GrammarMachine(const Grammar& grammar, const std::map<std::string, uint32_t>& tags)
    : grammar_(grammar), pattern_bytes_(kMostPatternBytes) {
  for (NodeId id = 0; id < grammar.size(); ++id) {
    const auto* tag = std::get_if<TagNode>(&grammar.node(id));
    const auto* text = std::get_if<TextNode>(&grammar.node(id));
    if (text != nullptr && text->pattern != nullptr) {
      patterns_.try_emplace(id, *text->pattern, pattern_bytes_);
      const auto& classes = text->pattern->classes();
      pattern_classes_.insert(pattern_classes_.end(), classes.begin(), classes.end());
    }
    if (tag == nullptr) continue;
    if (const auto found = tags.find(tag->text); found != tags.end()) tag_ids_[id] = found->second;
  }
  std::ranges::sort(pattern_classes_);
  const auto [last, end] = std::ranges::unique(pattern_classes_);
  pattern_classes_.erase(last, end);
}

Stacks GrammarMachine::Start(FrameStore& frames, NodeId node) {
  Stacks stacks;
  Run(*this, frames, stacks).Enter(node, kBottom);
  return stacks;
}

void GrammarMachine::Step(FrameStore& frames, const Stacks& from, uint8_t byte, Stacks& to) {
  Run run(*this, frames, to);
  for (FrameId id : from) run.StepFrame(id, byte);
}

void GrammarMachine::StepTag(FrameStore& frames, const Stacks& from, uint32_t token, Stacks& to) {
  Run run(*this, frames, to);
  for (FrameId id : from) {
    if (id != kBottom && TagOf(frames.at(id)) == token) run.Close(frames.at(id).below);
  }
}

void GrammarMachine::Resume(FrameStore& frames, FrameId frame, Stacks& to) {
  Run(*this, frames, to).Close(frame);
}

std::optional<uint32_t> GrammarMachine::TagOf(const Frame& frame) const {
  const auto found = tag_ids_.find(frame.node);
  if (found == tag_ids_.end()) return std::nullopt;
  return found->second;
}

const TextNode* GrammarMachine::TextOf(const Frame& frame) const {
  return std::get_if<TextNode>(&grammar_.node(frame.node));
}

PatternRun* GrammarMachine::PatternOf(const Frame& frame) {
  const auto found = patterns_.find(frame.node);
  return found == patterns_.end() ? nullptr : &found->second;
}

}  // namespace slotstream::generate
