// Translates the Split pattern of a tokenizer.json, written for Oniguruma (Ruby syntax, Unicode
// 16), into a PCRE2 pattern that matches the same text.
//
// Where the two engines disagree:
//   \s        Oniguruma: 9-D, 20, 85, A0, 1680, 2000-200A, 2028, 2029, 202F, 205F, 3000.
//             PCRE2 adds U+180E, so the class is written out.
//   \p{L}, \p{M}, \p{N}  PCRE2 10.42 knows Unicode 14; what 15, 15.1 and 16 added is appended.
//             (Nothing left these categories. A PCRE2 newer than Unicode 16 may also know later
//             letters; only text with characters unassigned in Unicode 16 can tell.)
// Accepted are literals, classes, alternation, groups (?:, (?i:, lookaround, the quantifiers, and
// the escapes \r \n \t \s \S \p{L} \p{M} \p{N} and escaped punctuation. All that the engines read
// differently (anchors, \h, \w, nested classes, possessive intervals ...) is refused.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace slotstream::text {

// Errors: kUnsupported, with the offset in the pattern.
Result<std::string> TranslateSplitPattern(std::string_view pattern);

}  // namespace slotstream::text
