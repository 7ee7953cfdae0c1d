// Steps of objects, as JSON and as parameters of a tool call.
#include <bit>
#include <string_view>
#include <utility>

#include "generate/machine_run.h"

namespace slotstream::generate {
namespace {

constexpr std::string_view kParameterOpen = "<parameter=";

}  // namespace

bool GrammarMachine::Run::Seen(const Frame& frame, size_t key) const {
  const auto& bits = frames.bits(frame.seen);
  return key / 64 < bits.size() && (bits[key / 64] >> key % 64 & 1) != 0;
}

uint64_t GrammarMachine::Run::SeenCount(const Frame& frame) const {
  uint64_t count = 0;
  for (uint64_t word : frames.bits(frame.seen)) count += static_cast<uint64_t>(std::popcount(word));
  return count;
}

uint64_t GrammarMachine::Run::Missing(const ObjectNode& object, const Frame& frame) const {
  uint64_t missing = 0;
  LookedAt(object.keys.size());
  for (size_t i = 0; i < object.keys.size(); ++i) missing += object.required[i] && !Seen(frame, i);
  return missing;
}

bool GrammarMachine::Run::MayFinish(const ObjectNode& object, const Frame& frame) const {
  return Missing(object, frame) == 0 && SeenCount(frame) >= object.min;
}

bool GrammarMachine::Run::HasRoom(const ObjectNode& object, const Frame& frame,
                                  bool declared) const {
  if (object.max == kUnbounded) return true;
  const uint64_t seen = SeenCount(frame), missing = Missing(object, frame);
  uint64_t owed = missing;
  if (!declared && object.min > seen) owed = std::max(owed, object.min - seen);
  return seen + frame.count + owed < object.max;
}

bool GrammarMachine::Run::MayAddOther(const ObjectNode& object, const Frame& frame) const {
  return object.additional != kNoNode && CanEnter(object.additional, frame.depth) &&
         HasRoom(object, frame, false);
}

bool GrammarMachine::Run::MayAddOneOf(const ObjectNode& object, const Frame& frame,
                                      Range range) const {
  const bool room = HasRoom(object, frame, true);
  size_t i = range.low;
  while (i < range.high && (Seen(frame, i) || !(room || object.required[i]) ||
                            !CanEnter(object.values[i], frame.depth))) {
    ++i;
  }
  LookedAt(i - range.low);
  return i < range.high;
}

Range GrammarMachine::Run::AllKeys(const ObjectNode& object) {
  return {0, static_cast<uint32_t>(object.keys.size()), 0};
}

bool GrammarMachine::Run::MayAdd(const ObjectNode& object, const Frame& frame) const {
  return MayAddOther(object, frame) || MayAddOneOf(object, frame, AllKeys(object));
}

void GrammarMachine::Run::BeginKey(const ObjectNode& object, Frame frame) {
  frame.phase = kKey;
  Key(object, frame, AllKeys(object), ScanStart(TextForm::kKey));
}

void GrammarMachine::Run::Key(const ObjectNode& object, Frame frame, Range range, uint8_t text) {
  const bool other = MayAddOther(object, frame);
  if (range.low == range.high) {
    if (!other) return;
    frame.phase = kColon;
    frame.at = 0;
    frame.y = static_cast<uint32_t>(object.keys.size());
    ++frame.count;
    if (object.max == kUnbounded) frame.count = 0;  // nobody counts
    Add({.below = frames.Intern(frame), .node = object.free_key, .phase = text});
    return;
  }
  if (!other && !MayAddOneOf(object, frame, range)) return;
  frame.at = Pack(range);
  frame.y = text;
  Add(frame);
}

bool GrammarMachine::Run::EndsName(const ObjectNode& object, const Frame& frame) const {
  return Scan(std::get<TextNode>(grammar.node(object.free_key)).form, static_cast<uint8_t>(frame.y),
              '"')
             .kind == ScanStep::Kind::kEnd;
}

void GrammarMachine::Run::StepKey(const ObjectNode& object, Frame frame, uint8_t byte) {
  const Range range = Unpack(frame.at);
  if (byte == (object.parameters ? '>' : '"')) {
    const bool declared = object.keys[range.low].size() == range.length;
    if (declared) {
      if (!MayAddOneOf(object, frame, {range.low, range.low + 1, 0})) return;
      frame.y = range.low;
      frame.seen = frames.BitsWith(frame.seen, range.low);
    } else {
      if (!MayAddOther(object, frame) || !EndsName(object, frame)) return;
      frame.y = static_cast<uint32_t>(object.keys.size());
      frame.count += object.max != kUnbounded;
    }
    frame.at = 0;
    frame.phase = object.parameters ? kValue : kColon;
    Close(frames.Intern(frame));
    return;
  }
  const Range narrowed = Narrow(object.keys, range, byte);
  uint8_t text = 0;
  if (!object.parameters) {
    const ScanStep step = object.additional == kNoNode
                              ? ScanStep{}
                              : Scan(std::get<TextNode>(grammar.node(object.free_key)).form,
                                     static_cast<uint8_t>(frame.y), byte);
    if (narrowed.low == narrowed.high && step.kind != ScanStep::Kind::kStay) return;
    text = step.state;
  }
  if (narrowed.low == narrowed.high && object.parameters) return;
  Key(object, frame, narrowed, text);
}

void GrammarMachine::Run::Parameters(const ObjectNode& object, const Frame& frame) {
  if (MayAddOneOf(object, frame, AllKeys(object))) Add(frame);
  if (MayFinish(object, frame)) Close(frame.below);
}

void GrammarMachine::Run::StepObject(const ObjectNode& object, Frame frame, uint8_t byte) {
  switch (frame.phase) {
    case kObjectStart:
      if (byte == '{') Gap(frame, kFirstKey);
      break;
    case kFirstKey:
      if (byte == '}' && MayFinish(object, frame)) Close(frame.below);
      [[fallthrough]];
    case kNextKey:
      if (byte == '"') BeginKey(object, frame);
      break;
    case kKey:
      StepKey(object, frame, byte);
      break;
    case kColon:
      if (byte == ':') Gap(frame, kValue);
      break;
    case kAfterValue:
      if (byte == ',' && MayAdd(object, frame)) Gap(frame, kNextKey);
      if (byte != ' ' && byte != '\n' && byte != '}') break;  // before a look at all members
      if (!MayFinish(object, frame)) break;
      if (byte != '}') GapBefore(frame, kObjectEnd, byte);
      [[fallthrough]];
    case kObjectEnd:
      if (byte == '}') Close(frame.below);
      break;
    case kParameters: {
      // The words before a name, one byte at a time; `at` counts them.
      if (byte != static_cast<uint8_t>(kParameterOpen[frame.at])) break;
      if (++frame.at < kParameterOpen.size()) {
        Add(frame);
      } else {
        frame.at = 0;
        BeginKey(object, frame);
      }
      break;
    }
    default:
      break;
  }
}

}  // namespace slotstream::generate
