// Sets of characters.
#pragma once

#include <utility>
#include <vector>

namespace slotstream::generate {

using CharRange = std::pair<char32_t, char32_t>;  // both inclusive
using CharRanges = std::vector<CharRange>;
inline constexpr char32_t kLastCharacter = 0x10FFFF;

// In order, apart from each other.
CharRanges Sorted(CharRanges ranges);
// All others up to `last`.
CharRanges Complement(const CharRanges& ranges, char32_t last);
// Those that are not barred.
CharRanges Without(const CharRanges& ranges, const CharRanges& barred);

}  // namespace slotstream::generate
