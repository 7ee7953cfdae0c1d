// Holds a reply to a grammar: before each token it takes away what can't follow, and it is told
// what was chosen. What may follow depends on the tokens of the reply alone (promise P1).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/frame_store.h"
#include "generate/grammar.h"
#include "generate/grammar_machine.h"
#include "generate/mask_builder.h"
#include "generate/vocabulary_index.h"

namespace slotstream::generate {

// What a reply must look like. Immutable, shared between threads.
struct Constraint {
  Grammar grammar;
  // The whole answer is grammar.root(); behind reasoning it is this, which allows line breaks
  // before it.
  NodeId after_reasoning = kNoNode;
  // Not empty: the answer is free until this text, e.g. "<tool_call>". From there on it is
  // grammar.root(), and then free again.
  std::string trigger;
};

// Follows one reply. One thread; constraint and vocabulary are kept alive by the caller.
class ConstraintRun {
 public:
  // `stop_ids` end a reply. `in_reasoning`: the reply begins within reasoning, where everything is
  // free but its end.
  ConstraintRun(const Constraint& constraint, VocabularyIndex& vocabulary,
                std::vector<uint32_t> stop_ids, bool in_reasoning);

  // Logits of tokens that can't follow become minus infinity. There is always one that can.
  void Filter(std::span<float> logits);
  // What the last mask cost at most, see MostMaskWork.
  uint64_t mask_work() const { return masks_.work(); }
  // Follows `id`; false, and nothing changed, where it can't follow.
  bool Accept(uint32_t id);

  // The reply may end here.
  bool MayEnd() const;
  // Nothing but the end can follow.
  bool Finished() const;

  // Where the reply stands. Cheap to copy; good for this run only.
  struct State {
    enum class Phase : uint8_t { kReasoning, kFree, kHeld } phase = Phase::kHeld;
    uint8_t matched = 0;  // bytes of the tag that ends the phase, at the end of the text
    std::shared_ptr<FrameStore> frames;  // of kHeld; another when it has grown
    Stacks stacks;                       // likewise
  };
  const State& state() const { return state_; }
  void Restore(const State& state);

 private:
  std::string_view Tag() const;  // what ends a free phase
  bool CrossesTag(std::string_view bytes) const;
  void FilterFree(std::span<float> logits) const;
  void AcceptFree(uint32_t id);
  void Hold(NodeId node);
  // Runs the stacks over a token's bytes; false: none is left.
  bool Follow(std::string_view bytes, Stacks& stacks);
  void DropFrames();
  bool Ends(uint32_t id) const;

  const Constraint& constraint_;
  VocabularyIndex& vocabulary_;
  const std::vector<uint32_t> stop_ids_;
  GrammarMachine machine_;
  MaskBuilder masks_;
  size_t most_frame_bytes_;
  TokenMask mask_;
  State state_;
};

}  // namespace slotstream::generate
