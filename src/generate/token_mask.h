// A set of token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slotstream::generate {

class TokenMask {
 public:
  explicit TokenMask(size_t tokens = 0) : words_((tokens + 63) / 64) {}

  void Set(uint32_t id) { words_[id / 64] |= uint64_t{1} << id % 64; }
  void Reset(uint32_t id) { words_[id / 64] &= ~(uint64_t{1} << id % 64); }
  bool Has(uint32_t id) const {
    return id / 64 < words_.size() && (words_[id / 64] >> id % 64 & 1) != 0;
  }
  void Clear() { words_.assign(words_.size(), 0); }
  void Merge(const TokenMask& other);  // of equal size
  bool Empty() const;
  // Minus infinity for all that is not in the set.
  void Apply(std::span<float> logits) const;

 private:
  std::vector<uint64_t> words_;
};

}  // namespace slotstream::generate
