#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace slotstream::text {
namespace {

// What may follow a lead byte: how many continuation bytes, and the range of the first of them
// (Unicode table 3-7; the narrow ranges exclude overlong forms, surrogates and values past 10FFFF).
struct Lead {
  uint8_t continuations = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

size_t AsciiPrefix(std::string_view bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < bytes.size() && static_cast<uint8_t>(bytes[i]) < 0x80) ++i;
  return i;
}

}  // namespace

Scalar NextScalar(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return {Scalar::Kind::kValid, 1, first};
  const Lead lead = LeadOf(first);
  if (lead.continuations == 0) return {Scalar::Kind::kBroken, 1, 0};
  char32_t value = first & (0x3Fu >> lead.continuations);
  for (size_t i = 1; i <= lead.continuations; ++i) {
    if (i == bytes.size()) return {Scalar::Kind::kIncomplete, i, 0};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Scalar::Kind::kBroken, i, 0};
    value = value << 6 | (byte & 0x3Fu);
  }
  return {Scalar::Kind::kValid, size_t{1} + lead.continuations, value};
}

size_t ValidPrefix(std::string_view bytes) {
  size_t i = 0;
  while (true) {
    i += AsciiPrefix(bytes.substr(i));
    if (i == bytes.size()) return i;
    const Scalar scalar = NextScalar(bytes.substr(i));
    if (scalar.kind != Scalar::Kind::kValid) return i;
    i += scalar.length;
  }
}

void AppendReplacingBroken(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t valid = ValidPrefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    out.append(kReplacement);
    bytes.remove_prefix(NextScalar(bytes).length);
  }
}

void AppendUtf8(char32_t c, std::string& out) {
  auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)),
        put(0x80 | (c & 0x3F));
  }
}

}  // namespace slotstream::text
