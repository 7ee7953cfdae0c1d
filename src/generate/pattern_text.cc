#include "generate/pattern_text.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace slotstream::generate {
namespace {

using Kind = ScanStep::Kind;

constexpr unsigned kLengthShift = 24;
// The first character that needs so many bytes.
constexpr std::array<char32_t, 5> kFirstOfLength = {0, 0, 0x80, 0x800, 0x10000};
constexpr std::pair<char, char32_t> kEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},
                                                  {'b', '\b'}, {'f', '\f'},  {'n', '\n'},
                                                  {'r', '\r'}, {'t', '\t'}};

PatternTextStep Lead(PatternTextState& state, uint8_t byte) {
  const unsigned length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
  if (byte < 0xC2 || byte > 0xF4) return {};
  state.part = static_cast<uint8_t>(length - 1);
  state.bits = length << kLengthShift | (byte & (0x7Fu >> length));
  return {PatternTextStep::Kind::kWithin};
}

PatternTextStep Continue(PatternTextState& state, uint8_t byte) {
  if ((byte & 0xC0) != 0x80) return {};
  const uint32_t length = state.bits >> kLengthShift << kLengthShift;
  const char32_t bits = (state.bits - length) << 6 | (byte & 0x3Fu);
  state.bits = length | bits;
  if (--state.part > 0) return {PatternTextStep::Kind::kWithin};
  state.bits = 0;
  if (bits < kFirstOfLength[length >> kLengthShift] || bits > kLastCharacter) return {};
  return {PatternTextStep::Kind::kCharacter, bits};
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

bool MayGoOn(const PatternRun& run, const PatternTextState& state) {
  if (state.part == kBehindBackslash) {
    return std::ranges::any_of(kEscapes, [&](const auto& escape) {
      return run.CanRead(state.set, escape.second, escape.second);
    });
  }
  const unsigned shift = 6u * state.part;
  const char32_t bits = state.bits & ((1u << kLengthShift) - 1);
  const char32_t low =
      std::max<char32_t>(bits << shift, kFirstOfLength[state.bits >> kLengthShift]);
  const char32_t high = std::min<char32_t>((bits << shift) | ((1u << shift) - 1), kLastCharacter);
  return low <= high && run.CanRead(state.set, low, high);
}

PatternTextStep ReadCharacter(TextForm form, PatternTextState& state, uint8_t byte) {
  if (state.part == kBehindBackslash) {
    for (const auto& [letter, character] : kEscapes) {
      if (byte != static_cast<uint8_t>(letter)) continue;
      state.part = 0;
      return {PatternTextStep::Kind::kCharacter, character};
    }
    return {};
  }
  if (state.part > 0) return Continue(state, byte);
  if (byte >= 0x80) return Lead(state, byte);
  if (form == TextForm::kPlain) return {PatternTextStep::Kind::kCharacter, byte};
  if (byte == '"') return {PatternTextStep::Kind::kQuote};
  if (byte == '\\') {
    state.part = kBehindBackslash;
    return {PatternTextStep::Kind::kWithin};
  }
  if (byte < 0x20) return {};
  return {PatternTextStep::Kind::kCharacter, byte};
}

ScanStep::Kind StepPatternText(TextForm form, PatternRun& run, PatternTextState& state,
                               uint8_t byte) {
  const PatternTextStep step = ReadCharacter(form, state, byte);
  switch (step.kind) {
    case PatternTextStep::Kind::kReject:
      return Kind::kReject;
    case PatternTextStep::Kind::kWithin:
      return MayGoOn(run, state) ? Kind::kStay : Kind::kReject;
    case PatternTextStep::Kind::kCharacter:
      state.set = run.Step(state.set, step.character);
      return state.set == PatternRun::kDead ? Kind::kReject : Kind::kStay;
    case PatternTextStep::Kind::kQuote:
      break;
  }
  return run.Complete(state.set) ? Kind::kEnd : Kind::kReject;
}

}  // namespace slotstream::generate
