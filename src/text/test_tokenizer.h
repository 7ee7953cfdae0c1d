// A tokenizer.json small enough to write by hand, for tests: all 256 bytes, three merges, three
// added tokens.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace slotstream::text {

inline nlohmann::json SmallTokenizerJson() {
  nlohmann::json vocab = nlohmann::json::object();
  for (char32_t c = 0; c < 0x144; ++c) {
    const auto byte = AlphabetByte(c);
    if (!byte) continue;
    std::string token;
    AppendUtf8(c, token);
    vocab[token] = *byte;
  }
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  vocab["bc"] = 258;
  auto added = [](int id, const char* content, bool special) {
    return nlohmann::json{{"id", id},           {"content", content}, {"special", special},
                          {"lstrip", false},    {"rstrip", false},    {"single_word", false},
                          {"normalized", false}};
  };
  // A list of two strings in braces would become an object.
  auto pair = [](const char* left, const char* right) {
    return nlohmann::json::array({left, right});
  };
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       {added(259, "<|end|>", true), added(260, "<t>", false), added(261, "<t>>", false)}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern",
            {{"Regex", R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|\s+|[^\s\p{L}\p{N}]+)"}}},
           {"behavior", "Isolated"},
           {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", nlohmann::json::array({pair("b", "c"), pair("a", "b"), pair("a", "bc")})}}},
  };
}

}  // namespace slotstream::text
