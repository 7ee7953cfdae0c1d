#include "generate/char_ranges.h"

#include <algorithm>

namespace slotstream::generate {

CharRanges Sorted(CharRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  CharRanges joined;
  for (const CharRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, range.second);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

CharRanges Complement(const CharRanges& ranges, char32_t last) {
  CharRanges result;
  char32_t next = 0;
  for (const CharRange& range : Sorted(ranges)) {
    if (range.first > next) result.emplace_back(next, range.first - 1);
    next = range.second + 1;
  }
  if (next <= last) result.emplace_back(next, last);
  return result;
}

CharRanges Without(const CharRanges& ranges, const CharRanges& barred) {
  CharRanges both = Complement(ranges, kLastCharacter);
  both.insert(both.end(), barred.begin(), barred.end());
  return Complement(both, kLastCharacter);
}

}  // namespace slotstream::generate
