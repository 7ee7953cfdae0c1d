// What the ids before a place of a prompt are known by.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace slotstream::engine {

// 128 bits that grow id by id. Not against enemies: who could make two of a client's prompts
// collide could send either.
class PromptHash {
 public:
  void Add(uint64_t value) {
    a_ = Mix(std::rotl(a_, 23) + value);
    b_ = Mix(b_ ^ (value + 0x9E3779B97F4A7C15u));
  }
  void Add(std::span<const uint32_t> ids) {
    for (const uint32_t id : ids) Add(uint64_t{id});
  }

  uint64_t a() const { return a_; }
  uint64_t b() const { return b_; }
  bool operator==(const PromptHash&) const = default;

 private:
  // The finalizer of splitmix64 (Steele and others 2014).
  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  uint64_t a_ = 0x243F6A8885A308D3u, b_ = 0x13198A2E03707344u;  // digits of pi
};

}  // namespace slotstream::engine
