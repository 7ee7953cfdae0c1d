// The byte-level alphabet of GPT-2: every byte has a printable character, so that tokens can be
// written in JSON. Bytes 21-7E, A1-AC and AE-FF (hexadecimal) stand for themselves; the other 68
// are U+0100, U+0101 ... in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slotstream::text {

// The byte that a character stands for, or nothing.
std::optional<uint8_t> AlphabetByte(char32_t character);

// The bytes that a token written in the alphabet stands for. A token with a character outside
// of the alphabet stands for its own UTF-8, as in Hugging Face's decoder.
std::string AlphabetToBytes(std::string_view token);

}  // namespace slotstream::text
