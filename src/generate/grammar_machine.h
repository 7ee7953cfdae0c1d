// Runs a grammar over bytes: which stacks of frames a text can lead to. Where a grammar is
// ambiguous a text leads to several at once.
//
// Nothing is entered that can't be completed, so every stack has a way to the end; dropping one
// only narrows what may follow.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "generate/frame_store.h"
#include "generate/grammar.h"

namespace slotstream::generate {

// Tops of stacks, in an order that depends on the text alone; kBottom among them: the text is
// complete.
using Stacks = std::vector<FrameId>;

// Stacks kept at once; an ambiguous grammar that would need more loses its last.
inline constexpr size_t kMostStacks = 512;

// A text of `count` characters, and `pending` bytes that may be its end or not, can still end.
bool TextHasEnd(const TextNode& text, uint64_t count, unsigned pending);

// Belongs to one thread; the grammar must outlive it.
class GrammarMachine {
 public:
  // `tags`: the ids of control tokens by their text; those of the grammar that are absent are
  // written in bytes.
  GrammarMachine(const Grammar& grammar, const std::map<std::string, uint32_t>& tags);

  // Before the first byte of `node`.
  Stacks Start(FrameStore& frames, NodeId node);
  // What the stacks become with `byte`; empty: it can't follow.
  void Step(FrameStore& frames, const Stacks& from, uint8_t byte, Stacks& to);
  // The same for a control token.
  void StepTag(FrameStore& frames, const Stacks& from, uint32_t token, Stacks& to);
  // What `frame` becomes when what it stood below is complete.
  void Resume(FrameStore& frames, FrameId frame, Stacks& to);

  // The control token that `frame` waits for.
  std::optional<uint32_t> TagOf(const Frame& frame) const;
  // The text that `frame` is in, and its pattern; or null.
  const TextNode* TextOf(const Frame& frame) const;
  PatternRun* PatternOf(const Frame& frame);
  // Of all its patterns together, as Pattern::classes.
  const std::vector<char32_t>& pattern_classes() const { return pattern_classes_; }
  const Grammar& grammar() const { return grammar_; }

  // What all steps so far have cost, in units of kPatternStep; it depends on nothing but the
  // frames that were stepped and the bytes.
  uint64_t work() const { return work_; }
  // A step over a set of a pattern that was met before: about 15 ns on a Zen 3. A frame's step and
  // what it enters take some times that.
  static constexpr uint64_t kPatternStep = 1, kFrameStep = 8, kEntered = 8, kLooks = 4;

 private:
  struct Run;  // one step

  const Grammar& grammar_;
  std::map<NodeId, uint32_t> tag_ids_;
  size_t pattern_bytes_;
  uint64_t work_ = 0;
  std::map<NodeId, PatternRun> patterns_;
  std::vector<char32_t> pattern_classes_;
};

}  // namespace slotstream::generate
