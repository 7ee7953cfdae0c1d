#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace slotstream::text {
namespace {

constexpr size_t kAlphabetEnd = 0x100 + 68;

struct Inverse {
  std::array<uint8_t, kAlphabetEnd> byte{};
  std::array<bool, kAlphabetEnd> known{};
};

constexpr Inverse MakeInverse() {
  Inverse inverse;
  size_t next = 0x100;
  for (size_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                        (byte >= 0xAE && byte <= 0xFF);
    const size_t character = itself ? byte : next++;
    inverse.byte[character] = static_cast<uint8_t>(byte);
    inverse.known[character] = true;
  }
  return inverse;
}

constexpr Inverse kInverse = MakeInverse();

}  // namespace

std::optional<uint8_t> AlphabetByte(char32_t character) {
  if (character >= kAlphabetEnd || !kInverse.known[character]) return std::nullopt;
  return kInverse.byte[character];
}

std::string AlphabetToBytes(std::string_view token) {
  std::string bytes;
  for (std::string_view rest = token; !rest.empty();) {
    const Scalar scalar = NextScalar(rest);
    const auto byte = AlphabetByte(scalar.code_point);
    if (scalar.kind != Scalar::Kind::kValid || !byte) return std::string(token);
    bytes.push_back(static_cast<char>(*byte));
    rest.remove_prefix(scalar.length);
  }
  return bytes;
}

}  // namespace slotstream::text
