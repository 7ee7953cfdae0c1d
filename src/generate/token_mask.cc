#include "generate/token_mask.h"

#include <algorithm>
#include <limits>

namespace slotstream::generate {

void TokenMask::Merge(const TokenMask& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

bool TokenMask::Empty() const {
  return std::all_of(words_.begin(), words_.end(), [](uint64_t word) { return word == 0; });
}

void TokenMask::Apply(std::span<float> logits) const {
  constexpr float never = -std::numeric_limits<float>::infinity();
  const size_t known = std::min(logits.size(), words_.size() * 64);
  for (size_t i = 0; i < known; i += 64) {
    const uint64_t word = words_[i / 64];
    if (word == ~uint64_t{0}) continue;
    const size_t end = std::min(known, i + 64);
    if (word == 0) {
      std::fill(logits.begin() + static_cast<ptrdiff_t>(i),
                logits.begin() + static_cast<ptrdiff_t>(end), never);
      continue;
    }
    for (size_t id = i; id < end; ++id) {
      if ((word >> (id - i) & 1) == 0) logits[id] = never;
    }
  }
  std::fill(logits.begin() + static_cast<ptrdiff_t>(known), logits.end(), never);
}

}  // namespace slotstream::generate
