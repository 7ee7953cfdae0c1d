#include "generate/machine_run.h"

#include <algorithm>
#include <utility>

namespace slotstream::generate {

uint64_t Pack(Range range) {
  return uint64_t{range.low} | uint64_t{range.high} << 20 | uint64_t{range.length} << 40;
}
Range Unpack(uint64_t at) {
  constexpr uint32_t mask = (1u << 20) - 1;
  return {static_cast<uint32_t>(at) & mask, static_cast<uint32_t>(at >> 20) & mask,
          static_cast<uint32_t>(at >> 40)};
}

Range Narrow(const std::vector<std::string>& words, Range range, uint8_t byte) {
  const size_t length = range.length;
  const auto next = [length](const std::string& word) {  // an ended word comes before all others
    return word.size() > length ? static_cast<int>(static_cast<uint8_t>(word[length])) : -1;
  };
  const auto begin = words.begin() + range.low, end = words.begin() + range.high;
  const auto low = std::lower_bound(begin, end, int{byte}, [&](const std::string& word, int value) {
    return next(word) < value;
  });
  const auto high = std::upper_bound(
      low, end, int{byte}, [&](int value, const std::string& word) { return value < next(word); });
  return {static_cast<uint32_t>(low - words.begin()), static_cast<uint32_t>(high - words.begin()),
          range.length + 1};
}

GrammarMachine::Run::Run(GrammarMachine& owner, FrameStore& store, Stacks& result)
    : machine(owner), grammar(owner.grammar_), frames(store), to(result) {
  to.clear();
  frames.BeginSet();
}

void GrammarMachine::Run::Add(const Frame& frame) { Keep(frames.Intern(frame)); }

void GrammarMachine::Run::Keep(FrameId id) {
  if (to.size() < kMostStacks && frames.New(id)) to.push_back(id);
}

bool GrammarMachine::Run::CanEnter(NodeId node, uint32_t depth) const {
  return depth + grammar.height(node) <= kDeepestReply;
}

void GrammarMachine::Run::Enter(NodeId id, FrameId below) {
  machine.work_ += kEntered;
  const uint8_t depth = frames.at(below).depth;
  if (!CanEnter(id, depth)) return;
  Frame frame{.below = below, .node = id};
  const Node& node = grammar.node(id);
  if (const auto* words = std::get_if<WordsNode>(&node)) {
    Words(*words, frame, {0, static_cast<uint32_t>(words->words.size()), 0});
  } else if (const auto* choice = std::get_if<ChoiceNode>(&node)) {
    if (!entered.emplace(id, below).second) return;
    for (NodeId way : choice->ways) Enter(way, below);
  } else if (std::get_if<SequenceNode>(&node) != nullptr) {
    frame.depth = depth;
    Part(frame);
  } else if (const auto* text = std::get_if<TextNode>(&node)) {
    frame.phase = text->pattern != nullptr ? uint8_t{0} : ScanStart(text->form);
    AddText(*text, frame);
  } else if (std::get_if<GapNode>(&node) != nullptr) {
    Add(frame);
    Close(below);
  } else if (const auto* object = std::get_if<ObjectNode>(&node)) {
    frame.depth = depth;
    if (object->parameters) {
      frame.phase = kParameters;
      Parameters(*object, frame);
    } else {
      ++frame.depth;
      Add(frame);
    }
  } else if (std::get_if<ArrayNode>(&node) != nullptr) {
    frame.depth = static_cast<uint8_t>(depth + 1);
    Add(frame);
  } else {
    Add(frame);  // a tag, a number
  }
}

void GrammarMachine::Run::Close(FrameId id) {
  if (id == kBottom) {
    Keep(kBottom);
    return;
  }
  const Frame frame = frames.at(id);
  const Node& node = grammar.node(frame.node);
  if (std::get_if<SequenceNode>(&node) != nullptr) {
    Part(frame);
  } else if (const auto* array = std::get_if<ArrayNode>(&node)) {
    if (frame.phase != kElement && (frame.phase != kFirst || array->min == 0)) Keep(id);
    if (frame.phase == kFirst || frame.phase == kElement) {
      if (const auto element = Element(*array, frame)) {
        Frame after = frame;
        after.phase = kAfterElement;
        after.count = std::min<uint64_t>(frame.count + 1, CountLimit(*array));
        Enter(*element, frames.Intern(after));
      }
    }
  } else if (const auto* object = std::get_if<ObjectNode>(&node)) {
    if (frame.phase == kValue) {
      Frame after = frame;
      after.phase = object->parameters ? kParameters : kAfterValue;
      after.y = 0;
      const bool declared = frame.y < object->keys.size();
      Enter(declared ? object->values[frame.y] : object->additional, frames.Intern(after));
    } else if (frame.phase == kParameters) {
      Parameters(*object, frame);
    } else {
      Keep(id);
    }
  } else {
    Keep(id);
  }
}

void GrammarMachine::Run::Part(Frame frame) {
  const auto& parts = std::get<SequenceNode>(grammar.node(frame.node)).parts;
  if (frame.x == parts.size()) return Close(frame.below);
  const NodeId part = parts[frame.x];
  if (++frame.x == parts.size()) return Enter(part, frame.below);
  Enter(part, frames.Intern(frame));
}

void GrammarMachine::Run::Words(const WordsNode& node, Frame frame, Range range) {
  if (range.low == range.high) return;
  if (node.words[range.low].size() == range.length) {
    if (node.next.empty()) {
      Close(frame.below);
    } else {
      Enter(node.next[range.low], frame.below);
    }
    if (++range.low == range.high) return;
  }
  if (!node.next.empty()) {
    const auto possible = [&](NodeId next) { return CanEnter(next, frames.at(frame.below).depth); };
    const auto low = node.next.begin() + range.low, high = node.next.begin() + range.high;
    const auto found = std::find_if(low, high, possible);
    LookedAt(static_cast<size_t>(found - low));
    if (found == high) return;
  }
  frame.at = Pack(range);
  Add(frame);
}

void GrammarMachine::Run::StepFrame(FrameId id, uint8_t byte) {
  if (id == kBottom) return;
  machine.work_ += kFrameStep;
  const Frame frame = frames.at(id);
  const Node& node = grammar.node(frame.node);
  if (const auto* text = std::get_if<TextNode>(&node)) {
    StepText(*text, frame, byte);
  } else if (const auto* words = std::get_if<WordsNode>(&node)) {
    Words(*words, frame, Narrow(words->words, Unpack(frame.at), byte));
  } else if (const auto* object = std::get_if<ObjectNode>(&node)) {
    StepObject(*object, frame, byte);
  } else if (const auto* array = std::get_if<ArrayNode>(&node)) {
    StepArray(*array, frame, byte);
  } else if (const auto* number = std::get_if<NumberNode>(&node)) {
    StepNumberFrame(*number, frame, byte);
  } else if (std::get_if<GapNode>(&node) != nullptr) {
    StepGap(frame, byte);
  } else if (const auto* tag = std::get_if<TagNode>(&node); tag && !machine.TagOf(frame)) {
    StepTagBytes(*tag, frame, byte);
  }
}

void GrammarMachine::Run::StepTagBytes(const TagNode& tag, Frame frame, uint8_t byte) {
  if (byte != static_cast<uint8_t>(tag.text[frame.at])) return;
  if (++frame.at == tag.text.size()) return Close(frame.below);
  Add(frame);
}

}  // namespace slotstream::generate
