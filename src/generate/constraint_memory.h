// What constraints keep in memory at most, for the plan. One engine has one vocabulary's index, and
// one reply at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slotstream::generate {

// Stacks of a reply and of a walk over the trie; what is done with is dropped beyond.
inline constexpr size_t kMostFrameBytes = 1 << 20, kMostScratchBytes = 2 << 20;
// Sets of states of all patterns: some thousands.
inline constexpr size_t kMostPatternBytes = 2 << 20;
// Masks of states that serve again: a hundred or more.
constexpr size_t MostMaskBytes(size_t vocab_size) { return (256 << 10) + 16 * vocab_size; }
// Tables of states of texts, and those where lengths count. A reply goes through a few of the 150
// states that there are.
inline constexpr size_t kMostTexts = 24, kMostLevels = 4;
// Vocabularies by the classes of a grammar's patterns: a reply has one, or another in calls. A wide
// pattern has some thousands of nodes, a thirteenth of the trie is the bound.
inline constexpr size_t kMostClassTries = 2;
constexpr size_t MostClassNodes(size_t vocab_size) { return vocab_size / 6; }

// All of them, the trie and the grammar.
uint64_t ConstraintBytes(size_t vocab_size);

}  // namespace slotstream::generate
