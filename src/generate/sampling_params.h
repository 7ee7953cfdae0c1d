// How the next token is chosen, as requests state it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace slotstream::generate {

// The most tokens that one request may ask for.
inline constexpr int64_t kMaxTokensCeiling = 32768;

// Added to the logit of one token.
struct TokenBias {
  uint32_t id = 0;
  float bias = 0;
  bool operator==(const TokenBias&) const = default;
};

struct SamplingParams {
  float temperature = 0.7f;       // 0: always the most likely token
  float top_p = 0.8f;             // 1: off
  int64_t top_k = 20;             // 0: off
  float min_p = 0.0f;             // 0: off
  float presence_penalty = 1.5f;  // subtracted once from every token generated so far
  // generate/penalties.h has what these do, in which order.
  float frequency_penalty = 0.0f;
  float repeat_penalty = 1.0f;  // 1: off
  int64_t repeat_last_n = -1;   // tokens that repeat_penalty looks back; 0: off, -1: all
  std::vector<TokenBias> logit_bias;
  int64_t max_tokens = 512;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;

  // Defaults by use; the members' own are the first. The values are Qwen's recommendations.
  static SamplingParams Instruct() { return {}; }
  static SamplingParams Thinking();
  static SamplingParams Agent();  // with tools
  static SamplingParams Greedy();

  // The same with every value in its range: what isn't finite or is out of range is turned off,
  // max_tokens of 0 or less means the ceiling, empty stop strings go. Done once, where a request
  // enters the engine.
  SamplingParams Sanitized() const;
};

}  // namespace slotstream::generate
