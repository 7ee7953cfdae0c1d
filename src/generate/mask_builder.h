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

#include "generate/class_trie.h"
#include "generate/grammar_machine.h"
#include "generate/pattern_text.h"
#include "generate/token_mask.h"
#include "generate/vocabulary_index.h"

namespace slotstream::generate {

// What looking for the tokens of one mask may cost, in units of GrammarMachine's work: with 151,669
// tokens some tenths of a second, where usual schemas take a hundredth of it. Beyond, the stacks
// that are left get only what one byte tells: their tokens of one byte, of which there is always
// one that can follow. Counted is what would be done if nothing were kept, so that a mask depends
// on the text alone.
constexpr uint64_t MostMaskWork(size_t vocab_size) { return 64 * uint64_t{vocab_size}; }

// Belongs to one thread; machine and vocabulary must outlive it.
class MaskBuilder {
 public:
  MaskBuilder(GrammarMachine& machine, VocabularyIndex& vocabulary)
      : machine_(machine),
        vocabulary_(vocabulary),
        most_work_(MostMaskWork(vocabulary.tokenizer().vocab_size())) {}

  // To be called when the frames are another store's.
  void Forget();
  // Adds the tokens whose whole text the stacks can take, control tokens that they wait for
  // included.
  void Build(const FrameStore& frames, const Stacks& stacks, TokenMask& mask);
  // Of the last mask.
  uint64_t work() const { return work_; }

 private:
  struct Local {                            // what a frame does on its own
    uint64_t number = 0;                    // never given twice
    std::vector<uint32_t> tokens;           // few
    std::shared_ptr<const TokenMask> many;  // or many
    std::vector<uint32_t> exits;            // nodes of the trie at which the frame may end
    uint64_t work = 0;                      // of finding this
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
  // By classes; false: too much work.
  bool WalkClasses(const ClassTrie& classes, PatternRun& pattern, uint32_t set, Local& local,
                   TokenMask& mask);
  void WalkBytes(TextForm form, PatternRun& pattern, PatternTextState state, Local& local,
                 TokenMask& mask);
  void Walk(const FrameStore& frames, const Frame& frame, const Local* above, Local& local);
  // From a node of the trie on, beginning with start_. `begun`: the machine's work before the walk.
  void WalkFrom(uint32_t entry, uint64_t begun, Local& local);
  // Tokens of one byte that the stack can take.
  void OneByte(const FrameStore& frames, FrameId id, TokenMask& mask);
  // Keeps the frames of start_ and of the first `levels` of levels_ alone.
  void DropScratch(size_t levels);

  GrammarMachine& machine_;
  VocabularyIndex& vocabulary_;
  const uint64_t most_work_;
  FrameStore scratch_;  // of one walk
  size_t most_scratch_ = 0;
  Stacks start_;
  std::vector<Stacks> levels_;  // behind each byte of the path
  std::unordered_map<Key, std::unique_ptr<Local>, KeyHash> known_;
  size_t known_bytes_ = 0;
  uint64_t numbers_ = 0;
  uint64_t work_ = 0;
};

}  // namespace slotstream::generate
