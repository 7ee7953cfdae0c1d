// A text that a pattern governs, byte by byte.
#pragma once

#include <cstdint>

#include "generate/pattern.h"
#include "generate/text_scanner.h"

namespace slotstream::generate {

// Characters that can't be in such a text: without an escape of one letter, or where a parameter's
// end could begin.
CharRanges BarredCharacters(TextForm form);

inline constexpr uint8_t kBehindBackslash = 4;

struct PatternTextState {
  uint8_t part = 0;   // bytes that the character still needs, or kBehindBackslash
  uint32_t bits = 0;  // of the character so far, above them its length in bytes from bit 24
  uint32_t set = PatternRun::kStart;
};

// Something can follow within a character or behind a backslash (`state.part` > 0).
bool MayGoOn(const PatternRun& run, const PatternTextState& state);

// A text without a quote at its end may end here.
bool MayEndHere(TextForm form, const PatternRun& run, const PatternTextState& state);

// What reads a text's characters, whatever the pattern.
struct PatternTextStep {
  enum class Kind : uint8_t {
    kReject,
    kWithin,     // part and bits of the state are those of a character that isn't complete
    kCharacter,  // `character` is complete; part and bits are 0
    kQuote,      // the end of a text in quotes
  };
  Kind kind = Kind::kReject;
  char32_t character = 0;
};
PatternTextStep ReadCharacter(TextForm form, PatternTextState& state, uint8_t byte);

// `form`: kJson or kJsonInCall, which end with a quote, or kPlain, which may end where the pattern
// does.
ScanStep::Kind StepPatternText(TextForm form, PatternRun& run, PatternTextState& state,
                               uint8_t byte);

}  // namespace slotstream::generate
