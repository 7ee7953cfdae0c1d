#include "generate/pattern_text.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace slotstream::generate {
namespace {

using Kind = ScanStep::Kind;

constexpr uint8_t kBehindBackslash = 4;
constexpr unsigned kLengthShift = 24;
// The first character that needs so many bytes.
constexpr std::array<char32_t, 5> kFirstOfLength = {0, 0, 0x80, 0x800, 0x10000};
constexpr std::pair<char, char32_t> kEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},
                                                  {'b', '\b'}, {'f', '\f'},  {'n', '\n'},
                                                  {'r', '\r'}, {'t', '\t'}};

Kind Read(PatternRun& run, PatternTextState& state, char32_t character) {
  const uint32_t next = run.Step(state.set, character);
  if (next == PatternRun::kDead) return Kind::kReject;
  state = {0, 0, next};
  return Kind::kStay;
}

// A character of several bytes, of which the last is not there yet.
Kind Await(PatternRun& run, const PatternTextState& state) {
  const unsigned shift = 6u * state.part;
  const char32_t bits = state.bits & ((1u << kLengthShift) - 1);
  const char32_t low =
      std::max<char32_t>(bits << shift, kFirstOfLength[state.bits >> kLengthShift]);
  const char32_t high = std::min<char32_t>((bits << shift) | ((1u << shift) - 1), kLastCharacter);
  return low <= high && run.CanRead(state.set, low, high) ? Kind::kStay : Kind::kReject;
}

Kind Lead(PatternRun& run, PatternTextState& state, uint8_t byte) {
  const unsigned length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
  if (byte < 0xC2 || byte > 0xF4) return Kind::kReject;
  state.part = static_cast<uint8_t>(length - 1);
  state.bits = length << kLengthShift | (byte & (0x7Fu >> length));
  return Await(run, state);
}

Kind Continue(PatternRun& run, PatternTextState& state, uint8_t byte) {
  if ((byte & 0xC0) != 0x80) return Kind::kReject;
  const uint32_t length = state.bits >> kLengthShift << kLengthShift;
  const char32_t bits = (state.bits - length) << 6 | (byte & 0x3Fu);
  if (--state.part == 0) return Read(run, state, bits);
  state.bits = length | bits;
  return Await(run, state);
}

}  // namespace

CharRanges BarredCharacters(TextForm form) {
  CharRanges barred = {{0, 7}, {0x0B, 0x0B}, {0x0E, 0x1F}, {0xD800, 0xDFFF}};
  if (form != TextForm::kJson) barred.emplace_back('<', '<');
  if (form == TextForm::kPlain) barred.emplace_back(0, 0x1F);
  return barred;
}

bool MayEndHere(TextForm form, const PatternRun& run, const PatternTextState& state) {
  return form == TextForm::kPlain && state.part == 0 && run.Complete(state.set);
}

ScanStep::Kind StepPatternText(TextForm form, PatternRun& run, PatternTextState& state,
                               uint8_t byte) {
  if (state.part == kBehindBackslash) {
    for (const auto& [letter, character] : kEscapes) {
      if (byte == static_cast<uint8_t>(letter)) return Read(run, state, character);
    }
    return Kind::kReject;
  }
  if (state.part > 0) return Continue(run, state, byte);
  if (byte >= 0x80) return Lead(run, state, byte);
  if (form == TextForm::kPlain) return Read(run, state, byte);
  if (byte == '"') return run.Complete(state.set) ? Kind::kEnd : Kind::kReject;
  if (byte == '\\') {
    const bool any = std::ranges::any_of(kEscapes, [&](const auto& escape) {
      return run.CanRead(state.set, escape.second, escape.second);
    });
    state.part = kBehindBackslash;
    return any ? Kind::kStay : Kind::kReject;
  }
  return byte < 0x20 ? Kind::kReject : Read(run, state, byte);
}

}  // namespace slotstream::generate
