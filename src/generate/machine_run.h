// One step of a grammar's machine (generate/grammar_machine.h): what frames become, by their node.
//
// Fields of frames. Words, tags in bytes: `at` the range. Sequence: `x` the next part. Text: the
// phase is the scanner's state, `count` characters. Number: `x` flags, `at` value. Gap: phase 1 in
// an indentation of `count`. Array: `count` elements. Object: `count`
// members that were not declared.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generate/grammar_machine.h"

namespace slotstream::generate {

// Words: the range of those that the text so far begins, and its length. 20 bits hold kMostWords.
struct Range {
  uint32_t low, high, length;
};
uint64_t Pack(Range range);
Range Unpack(uint64_t at);
// Those of the range whose next byte is `byte`.
Range Narrow(const std::vector<std::string>& words, Range range, uint8_t byte);

enum ArrayPhase : uint8_t { kArrayStart, kFirst, kAfterElement, kElement, kArrayEnd };
enum ObjectPhase : uint8_t {
  kObjectStart,
  kFirstKey,    // a quote, or the end
  kNextKey,     // a quote
  kKey,         // in a name; `at`: its range among the keys
  kColon,       // `y`: the member; declared.size(): another
  kValue,       // the gap behind the colon is over; `y` as before
  kAfterValue,  // a comma or the end
  kObjectEnd,   // the end alone
  kParameters,  // of a call: another parameter or the end
};

struct GrammarMachine::Run {
  GrammarMachine& machine;
  const Grammar& grammar;
  FrameStore& frames;
  Stacks& to;
  // Choices that were entered, and on what: a schema may lead to one in very many ways.
  std::set<std::pair<NodeId, FrameId>> entered;

  Run(GrammarMachine& owner, FrameStore& store, Stacks& result);

  // So many parts of a node, one after another.
  void LookedAt(size_t parts) const { machine.work_ += parts / kLooks; }
  void Add(const Frame& frame);
  void Keep(FrameId id);
  bool CanEnter(NodeId node, uint32_t depth) const;
  // Begins `node` on top of `below`.
  void Enter(NodeId id, FrameId below);
  // Goes on with the frame `id` after what stood on it is complete.
  void Close(FrameId id);
  // The next part of a sequence; the last stands in the sequence's place.
  void Part(Frame frame);
  void Words(const WordsNode& node, Frame frame, Range range);
  void StepFrame(FrameId id, uint8_t byte);
  void StepTagBytes(const TagNode& tag, Frame frame, uint8_t byte);

  // Texts, numbers, white space and lists: machine_values.cc.
  // A plain text may end wherever its pattern does.
  void AddText(const TextNode& text, const Frame& frame);
  void StepPattern(const TextNode& text, Frame frame, uint8_t byte);
  void StepText(const TextNode& text, Frame frame, uint8_t byte);
  void StepNumberFrame(const NumberNode& node, Frame frame, uint8_t byte);
  void Gap(Frame below, uint8_t phase);
  // White space before a closing bracket.
  void GapBefore(Frame below, uint8_t phase, uint8_t byte);
  void StepGap(Frame frame, uint8_t byte);
  // Elements counted so far, where that still matters.
  static uint64_t CountLimit(const ArrayNode& array);
  std::optional<NodeId> Element(const ArrayNode& array, const Frame& frame) const;
  void StepArray(const ArrayNode& array, Frame frame, uint8_t byte);

  // Objects: machine_objects.cc.
  bool Seen(const Frame& frame, size_t key) const;
  uint64_t SeenCount(const Frame& frame) const;
  uint64_t Missing(const ObjectNode& object, const Frame& frame) const;
  bool MayFinish(const ObjectNode& object, const Frame& frame) const;
  // Room for a member that is not required, required ones and the fewest declared kept in mind.
  bool HasRoom(const ObjectNode& object, const Frame& frame, bool declared) const;
  bool MayAddOther(const ObjectNode& object, const Frame& frame) const;
  bool MayAddOneOf(const ObjectNode& object, const Frame& frame, Range range) const;
  static Range AllKeys(const ObjectNode& object);
  bool MayAdd(const ObjectNode& object, const Frame& frame) const;
  void BeginKey(const ObjectNode& object, Frame frame);
  // `text`: the scanner's state of the name so far. A name that can't be a declared one any more is
  // left to the text of other names.
  void Key(const ObjectNode& object, Frame frame, Range range, uint8_t text);
  // The name so far is whole characters.
  bool EndsName(const ObjectNode& object, const Frame& frame) const;
  void StepKey(const ObjectNode& object, Frame frame, uint8_t byte);
  void Parameters(const ObjectNode& object, const Frame& frame);
  void StepObject(const ObjectNode& object, Frame frame, uint8_t byte);
};

}  // namespace slotstream::generate
