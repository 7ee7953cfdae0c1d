// Which tokens may follow a grammar's stacks.
//
// A frame is walked over the trie without what it stands on: the tokens that it takes whole, and
// the places in the trie where it ends. What is below goes on from there, and so on downwards. As
// such results don't depend on the rest of the stack they are kept and serve again.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "generate/grammar_machine.h"
#include "generate/token_mask.h"
#include "generate/vocabulary_index.h"

namespace slotstream::generate {

// Belongs to one thread; machine and vocabulary must outlive it.
class MaskBuilder {
 public:
  MaskBuilder(GrammarMachine& machine, VocabularyIndex& vocabulary)
      : machine_(machine), vocabulary_(vocabulary) {}

  // To be called when the frames are another store's.
  void Forget();
  // Adds the tokens whose whole text the stacks can take, control tokens that they wait for
  // included.
  void Build(const FrameStore& frames, const Stacks& stacks, TokenMask& mask);

 private:
  struct Local {                            // what a frame does on its own
    uint64_t number = 0;                    // never given twice
    std::vector<uint32_t> tokens;           // few
    std::shared_ptr<const TokenMask> many;  // or many
    std::vector<uint32_t> exits;            // nodes of the trie at which the frame may end
  };
  struct Key {
    Frame frame;
    uint64_t entry = 0;  // the Local at whose exits the frame begins; 0: at the root
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return FrameHash()(key.frame) ^ static_cast<size_t>(key.entry * 0x9E3779B97F4A7C15);
    }
  };

  void Collect(const FrameStore& frames, FrameId id, const Local* above, TokenMask& mask);
  const Local& Find(const FrameStore& frames, const Frame& frame, const Local* above);
  size_t BytesOf(const Local& local) const;
  void InText(const TextNode& text, const Frame& frame, Local& local);
  void InPattern(const TextNode& text, PatternRun& pattern, const Frame& frame, Local& local);
  void Walk(const FrameStore& frames, const Frame& frame, const Local* above, Local& local);
  // From a node of the trie on, beginning with start_.
  void WalkFrom(uint32_t entry, Local& local);
  // Keeps the frames of start_ and of the first `levels` of levels_ alone.
  void DropScratch(size_t levels);

  GrammarMachine& machine_;
  VocabularyIndex& vocabulary_;
  FrameStore scratch_;  // of one walk
  size_t most_scratch_ = 0;
  Stacks start_;
  std::vector<Stacks> levels_;  // behind each byte of the path
  std::unordered_map<Key, std::unique_ptr<Local>, KeyHash> known_;
  size_t known_bytes_ = 0;
  uint64_t numbers_ = 0;
};

}  // namespace slotstream::generate
