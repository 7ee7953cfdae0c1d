#include "generate/constraint_memory.h"

#include "generate/class_trie.h"
#include "generate/grammar.h"
#include "generate/vocabulary_index.h"

namespace slotstream::generate {

uint64_t ConstraintBytes(size_t vocab_size) {
  // Nodes have words, members and characters besides: as much again.
  constexpr uint64_t grammar = 2 * kMostNodes * sizeof(Node);
  // A vocabulary of 151,643 tokens has 2.2 nodes of the trie for each.
  constexpr uint64_t trie = 3 * (1 + 2 * sizeof(uint32_t));
  const uint64_t mask = vocab_size / 8;
  // Fewer than one token in 16 is long, pending or has its like among a text's ends.
  const uint64_t text = mask + vocab_size / 16 * sizeof(TextTokens::Stay);
  const uint64_t levels = TextTokens::kLong * mask;
  // Its nodes, tokens in lists, ends, and what it is made from.
  const uint64_t making = 160;
  const uint64_t classes = kMostClassTries * (MostClassNodes(vocab_size) * ClassTrie::kNodeBytes +
                                              vocab_size * 2 * sizeof(uint32_t)) +
                           MostClassNodes(vocab_size) * making;
  const uint64_t logits = vocab_size * sizeof(float);
  return grammar + vocab_size * trie + kMostTexts * text + kMostLevels * levels + classes +
         MostMaskBytes(vocab_size) + kMostFrameBytes + kMostScratchBytes + kMostPatternBytes +
         logits;
}

}  // namespace slotstream::generate
