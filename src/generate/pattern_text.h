// A text that a pattern governs, byte by byte.
#pragma once

#include <cstdint>

#include "generate/pattern.h"
#include "generate/text_scanner.h"

namespace slotstream::generate {

// Characters that can't be in such a text: without an escape of one letter, or where a parameter's
// end could begin.
CharRanges BarredCharacters(TextForm form);

struct PatternTextState {
  uint8_t part = 0;   // bytes that the character still needs; 4: behind a backslash
  uint32_t bits = 0;  // of the character so far, above them its length in bytes from bit 24
  uint32_t set = PatternRun::kStart;
};

// A text without a quote at its end may end here.
bool MayEndHere(TextForm form, const PatternRun& run, const PatternTextState& state);

// `form`: kJson or kJsonInCall, which end with a quote, or kPlain, which may end where the pattern
// does.
ScanStep::Kind StepPatternText(TextForm form, PatternRun& run, PatternTextState& state,
                               uint8_t byte);

}  // namespace slotstream::generate
