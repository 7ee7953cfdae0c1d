#include "checkpoint/ngram_hash.h"

#include <algorithm>
#include <array>

namespace slotstream::checkpoint {
namespace {

uint32_t PowerModulo(uint32_t base, uint32_t exponent, uint32_t modulus) {
  uint64_t result = 1;
  uint64_t factor = base % modulus;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = result * factor % modulus;
    factor = factor * factor % modulus;
  }
  return static_cast<uint32_t>(result);
}

// Miller-Rabin. The bases 2, 3, 5 and 7 decide every number below 3,215,031,751 (Jaeschke 1993);
// with 11 every number below 2,152,302,898,747, so any uint32.
bool IsPrime(uint32_t n) {
  constexpr std::array<uint32_t, 5> kBases = {2, 3, 5, 7, 11};
  if (n < 2) return false;
  for (uint32_t base : kBases) {
    if (n % base == 0) return n == base;
  }
  uint32_t odd = n - 1;
  int twos = 0;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  return std::ranges::all_of(kBases, [&](uint32_t base) {
    uint64_t x = PowerModulo(base, odd, n);
    if (x == 1 || x == n - 1) return true;
    for (int i = 1; i < twos; ++i) {
      x = x * x % n;
      if (x == n - 1) return true;
    }
    return false;
  });
}

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15u;

// splitmix64: it advances its state by kGamma before mixing (Steele, Lea and Flood 2014).
uint64_t SplitMix(uint64_t v) {
  v += kGamma;
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9u;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EBu;
  return v ^ (v >> 31);
}

}  // namespace

NgramHash MakeNgramHash(const ModelConfig& config, size_t i) {
  NgramHash out;
  out.heads_per_ngram = config.heads_per_ngram;

  // Multipliers stay so small that a product with any id is a positive int64.
  const uint64_t half = std::max<uint64_t>(1, (uint64_t{INT64_MAX} / config.vocab_size) / 2);
  const uint64_t base = config.hash_seed + 10007 * uint64_t{i};
  for (uint64_t j = 1; j <= config.ngram_size; ++j) {
    out.multipliers.push_back(2 * (SplitMix(base + kGamma * j) % half) + 1);
  }

  // The tables of all layers share one rising sequence of primes.
  const size_t heads = config.ngram_heads();
  size_t skip = i * heads;
  for (auto n = static_cast<uint32_t>(config.ngram_vocab_size_base); out.sizes.size() < heads;
       ++n) {
    if (!IsPrime(n)) continue;
    if (skip > 0) {
      --skip;
      continue;
    }
    out.offsets.push_back(out.rows);
    out.sizes.push_back(n);
    out.rows += n;
  }
  const uint64_t divisor = config.ngram_vocab_divisor;
  out.rows = (out.rows + divisor - 1) / divisor * divisor;
  return out;
}

void NgramHash::Rows(std::span<const uint32_t> y, std::span<uint64_t> out) const {
  uint64_t x = y[0] * multipliers[0];
  size_t head = 0;
  for (size_t n = 1; n < multipliers.size(); ++n) {
    x ^= y[n] * multipliers[n];
    for (uint32_t j = 0; j < heads_per_ngram; ++j, ++head) {
      out[head] = x % sizes[head] + offsets[head];
    }
  }
}

void NgramContext::Push(uint32_t id, std::span<uint32_t> y) {
  y[0] = id;
  std::ranges::copy(previous_, y.begin() + 1);
  if (id == eos_) {
    std::ranges::fill(previous_, eos_);
  } else {
    std::copy_backward(previous_.begin(), previous_.end() - 1, previous_.end());
    previous_[0] = id;
  }
}

}  // namespace slotstream::checkpoint
