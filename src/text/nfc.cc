#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "text/utf8.h"

namespace slotstream::text {
namespace {

// Above lie only planes without characters that normalization touches today; scalars up there
// take the slow path, which is right for all.
constexpr char32_t kTableEnd = 0x30000;

// The longest canonical decomposition of one scalar has 4 scalars (Unicode's stability policy
// promises at most 18 for the compatibility forms, which bounds this one too).
constexpr size_t kLongestDecomposition = 18;

// Scalars that Unicode 10 to 18 gave a combining class or a place in a canonical composition. For
// normalization of Unicode 9 they are starters that never change.
struct ScalarRange {
  char32_t first, last;
};
constexpr ScalarRange kNewerThanUnicode9[] = {
    {0x5C8, 0x5C9},     {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},
    {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},
    {0x1715, 0x1715},   {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x105C9, 0x105C9}, {0x105D2, 0x105D2}, {0x105DA, 0x105DA}, {0x105E4, 0x105E4},
    {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10ECB, 0x10ECF},
    {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11385}, {0x1138B, 0x1138B},
    {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
    {0x113C7, 0x113C8}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x1611E, 0x1611E}, {0x16121, 0x16129}, {0x1612F, 0x1612F}, {0x16D63, 0x16D63},
    {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1D127, 0x1D128}, {0x1D250, 0x1D252},
    {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF},
    {0x1E6F5, 0x1E6F5},
};

bool NewerThanUnicode9(char32_t c) {
  const auto* range = std::lower_bound(
      std::begin(kNewerThanUnicode9), std::end(kNewerThanUnicode9), c,
      [](const ScalarRange& candidate, char32_t value) { return candidate.last < value; });
  return range != std::end(kNewerThanUnicode9) && range->first <= c;
}

constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);

int CombiningClass(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

void Decompose(char32_t c, std::vector<utf8proc_int32_t>& out) {
  std::array<utf8proc_int32_t, kLongestDecomposition> parts;
  int boundary = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(), kDecompose, &boundary);
  if (count <= 0 || static_cast<size_t>(count) > parts.size()) {
    out.push_back(static_cast<utf8proc_int32_t>(c));
  } else {
    out.insert(out.end(), parts.begin(), parts.begin() + count);
  }
}

void Compose(std::vector<utf8proc_int32_t>& scalars) {
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      scalars.data(), static_cast<utf8proc_ssize_t>(scalars.size()), kCompose);
  if (count >= 0) scalars.resize(static_cast<size_t>(count));
}

// Canonical ordering: runs of marks sorted by combining class, equal classes in place.
void SortMarks(std::vector<utf8proc_int32_t>& scalars) {
  auto is_mark = [](utf8proc_int32_t c) { return CombiningClass(static_cast<char32_t>(c)) != 0; };
  auto begin = scalars.begin();
  while ((begin = std::find_if(begin, scalars.end(), is_mark)) != scalars.end()) {
    auto end = std::find_if_not(begin, scalars.end(), is_mark);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(static_cast<char32_t>(a)) < CombiningClass(static_cast<char32_t>(b));
    });
    begin = end;
  }
}

void AppendNormalized(std::string_view segment, std::string& out) {
  // Only the first scalar can be newer, since newer ones are stable; utf8proc must not see it.
  if (const Scalar first = NextScalar(segment); NewerThanUnicode9(first.code_point)) {
    out.append(segment.substr(0, first.length));
    segment.remove_prefix(first.length);
  }
  std::vector<utf8proc_int32_t> scalars;
  while (!segment.empty()) {
    const Scalar scalar = NextScalar(segment);
    Decompose(scalar.code_point, scalars);
    segment.remove_prefix(scalar.length);
  }
  SortMarks(scalars);
  Compose(scalars);
  for (utf8proc_int32_t c : scalars) AppendUtf8(static_cast<char32_t>(c), out);
}

}  // namespace

NfcNormalizer::NfcNormalizer() : unstable_(kTableEnd) {
  std::vector<utf8proc_int32_t> scalars;
  for (char32_t c = 0; c < kTableEnd; ++c) {
    if ((c >= 0xD800 && c < 0xE000) || NewerThanUnicode9(c)) continue;
    if (CombiningClass(c) != 0) unstable_[c] = true;
    scalars.clear();
    Decompose(c, scalars);
    if (scalars.size() > 1) {
      const auto last = static_cast<char32_t>(scalars.back());
      if (last < kTableEnd) unstable_[last] = true;
    }
    Compose(scalars);
    if (scalars.size() != 1 || static_cast<char32_t>(scalars[0]) != c) unstable_[c] = true;
  }
  // Hangul vowels and final consonants compose by rule, not by table. U+11A7, the place before the
  // first final, composes with nothing; being stable it also hides from utf8proc, which loses it.
  std::fill(unstable_.begin() + 0x1161, unstable_.begin() + 0x1176, true);
  std::fill(unstable_.begin() + 0x11A8, unstable_.begin() + 0x11C3, true);
}

bool NfcNormalizer::Stable(char32_t c) const { return c < kTableEnd && !unstable_[c]; }

std::string_view NfcNormalizer::Normalize(std::string_view text, std::string& buffer) const {
  buffer.clear();
  size_t copied = 0;    // text before it is in the buffer
  size_t previous = 0;  // where the scalar before the current one begins
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      previous = i++;
      continue;
    }
    const Scalar scalar = NextScalar(text.substr(i));
    if (Stable(scalar.code_point)) {
      previous = i;
      i += scalar.length;
      continue;
    }
    size_t end = i + scalar.length;
    while (end < text.size()) {
      const Scalar next = NextScalar(text.substr(end));
      if (Stable(next.code_point)) break;
      end += next.length;
    }
    buffer.append(text.substr(copied, previous - copied));
    AppendNormalized(text.substr(previous, end - previous), buffer);
    copied = previous = i = end;
  }
  if (copied == 0) return text;
  buffer.append(text.substr(copied));
  return buffer;
}

}  // namespace slotstream::text
