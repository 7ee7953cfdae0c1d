// Steps of texts, numbers, white space and lists.
#include <algorithm>

#include "generate/machine_run.h"
#include "generate/pattern_text.h"

namespace slotstream::generate {
namespace {

// Spaces of an indentation; deep enough for kDeepestReply levels of 1, or 32 of 2.
constexpr uint64_t kMostIndent = 64;

}  // namespace

void GrammarMachine::Run::AddText(const TextNode& text, const Frame& frame) {
  Add(frame);
  if (text.pattern == nullptr) return;
  const PatternTextState state{frame.phase, static_cast<uint32_t>(frame.at), frame.y};
  if (MayEndHere(text.form, machine.patterns_.at(frame.node), state)) Close(frame.below);
}

void GrammarMachine::Run::StepPattern(const TextNode& text, Frame frame, uint8_t byte) {
  PatternRun& pattern = machine.patterns_.at(frame.node);
  PatternTextState state{frame.phase, static_cast<uint32_t>(frame.at), frame.y};
  machine.work_ += pattern.StepWork(state.set);
  switch (StepPatternText(text.form, pattern, state, byte)) {
    case ScanStep::Kind::kReject:
      return;
    case ScanStep::Kind::kEnd:
      return Close(frame.below);
    case ScanStep::Kind::kStay:
      break;
  }
  frame.phase = state.part;
  frame.at = state.bits;
  frame.y = state.set;
  AddText(text, frame);
}

void GrammarMachine::Run::StepText(const TextNode& text, Frame frame, uint8_t byte) {
  if (text.pattern != nullptr) return StepPattern(text, frame, byte);
  const ScanStep step = Scan(text.form, frame.phase, byte);
  if (step.kind == ScanStep::Kind::kReject) return;
  uint64_t count = frame.count + step.added;
  if (count > text.max) return;
  if (step.kind == ScanStep::Kind::kEnd) {
    if (count >= text.min) Close(frame.below);
    return;
  }
  if (!TextHasEnd(text, count, PendingBytes(step.state))) return;
  if (text.max == kUnbounded) count = std::min(count, text.min);
  frame.phase = step.state;
  frame.count = count;
  Add(frame);
}

void GrammarMachine::Run::StepNumberFrame(const NumberNode& node, Frame frame, uint8_t byte) {
  NumberState state{frame.phase, frame.x, frame.at};
  if (!StepNumber(node.rules, state, byte)) return;
  frame.phase = state.phase;
  frame.x = state.flags;
  frame.at = state.value;
  Add(frame);
  if (NumberComplete(node.rules, state)) Close(frame.below);
}

void GrammarMachine::Run::Gap(Frame below, uint8_t phase) {
  below.phase = phase;
  Enter(grammar.gap(), frames.Intern(below));
}

void GrammarMachine::Run::GapBefore(Frame below, uint8_t phase, uint8_t byte) {
  below.phase = phase;
  StepGap({.below = frames.Intern(below), .node = grammar.gap()}, byte);
}

void GrammarMachine::Run::StepGap(Frame frame, uint8_t byte) {
  if (frame.phase == 0) {
    if (byte == ' ') Close(frame.below);
    if (byte != '\n') return;
    frame.phase = 1;
  } else {
    if ((byte != ' ' && byte != '\t') || frame.count == kMostIndent) return;
    ++frame.count;
  }
  Add(frame);
  Close(frame.below);
}

uint64_t GrammarMachine::Run::CountLimit(const ArrayNode& array) {
  if (array.max != kUnbounded) return array.max;
  return std::max<uint64_t>(array.min, array.prefix.size());
}

std::optional<NodeId> GrammarMachine::Run::Element(const ArrayNode& array,
                                                   const Frame& frame) const {
  if (frame.count >= array.max) return std::nullopt;
  const NodeId node = frame.count < array.prefix.size() ? array.prefix[frame.count] : array.rest;
  if (node == kNoNode || !CanEnter(node, frame.depth)) return std::nullopt;
  return node;
}

void GrammarMachine::Run::StepArray(const ArrayNode& array, Frame frame, uint8_t byte) {
  const bool may_end = frame.count >= array.min;
  switch (frame.phase) {
    case kArrayStart:
      if (byte == '[') Gap(frame, kFirst);
      break;
    case kFirst:
      if (byte == ']' && may_end) Close(frame.below);
      break;
    case kAfterElement:
      if (byte == ',' && Element(array, frame)) Gap(frame, kElement);
      if (!may_end) break;
      if (byte == ' ' || byte == '\n') GapBefore(frame, kArrayEnd, byte);
      [[fallthrough]];
    case kArrayEnd:
      if (byte == ']') Close(frame.below);
      break;
    default:
      break;
  }
}

}  // namespace slotstream::generate
