// The hashed n-gram memory's addresses: which rows of the table a token reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"

namespace slotstream::checkpoint {

// Constants of one layer's table. With n = ngram_size and h = heads_per_ngram there are n
// multipliers and (n-1)*h heads; head j reads rows offsets[j] .. offsets[j] + sizes[j] - 1.
struct NgramHash {
  std::vector<uint64_t> multipliers;  // odd
  std::vector<uint64_t> sizes;        // primes
  std::vector<uint64_t> offsets;      // running sum of sizes
  uint64_t rows = 0;                  // sum of sizes, rounded up to ngram_vocab_divisor
  uint32_t heads_per_ngram = 0;

  // Rows for context ids y[0] (the token), y[1] (before it), ...; y.size() == multipliers.size(),
  // out.size() == sizes.size().
  void Rows(std::span<const uint32_t> y, std::span<uint64_t> out) const;
};

// The constants of the i-th n-gram layer (i counts config.ple_layers), by splitmix64 from
// config.hash_seed and successive primes from ngram_vocab_size_base.
NgramHash MakeNgramHash(const ModelConfig& config, size_t i);

// The last ngram_size - 1 ids, E (end of text) where there are none or a segment ended.
class NgramContext {
 public:
  NgramContext(uint32_t ngram_size, uint32_t eos) : eos_(eos), previous_(ngram_size - 1, eos) {}
  // Writes y for `id` (ngram_size values, y[0] = id) and moves on. An end-of-text id still sees
  // its predecessors; what follows it does not.
  void Push(uint32_t id, std::span<uint32_t> y);
  // Newest first. Pushed oldest first, they make another context equal to this one.
  std::span<const uint32_t> previous() const { return previous_; }
  bool operator==(const NgramContext&) const = default;

 private:
  uint32_t eos_;
  std::vector<uint32_t> previous_;  // newest first
};

}  // namespace slotstream::checkpoint
