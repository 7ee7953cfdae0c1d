// Where a streamed text may be about to show a tag.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace slotstream::text {

// Length of the longest end of `text` that is a beginning of `tag`, but not all of it.
inline size_t PartialMatch(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace slotstream::text
