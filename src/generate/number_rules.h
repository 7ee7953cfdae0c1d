// JSON numbers digit by digit, within bounds. Nothing is entered that has no end: after each
// character some number within the bounds can still be reached.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace slotstream::generate {

// So many digits before the point, and as many after it without bounds: 64 bits hold the integers,
// and a weak model can't write digits for ever.
inline constexpr unsigned kMostDigits = 18;
// Digits after the point in a number with bounds, and of the bounds.
inline constexpr unsigned kFractionDigits = 12;
inline constexpr unsigned kExponentDigits = 2;

__extension__ typedef __int128 Int128;

// In units of 10^-12, both inclusive.
struct NumberBounds {
  Int128 low, high;
};

struct NumberRules {
  bool integer = false;
  std::optional<NumberBounds> bounds;  // absent: any number
};

struct NumberState {
  enum Phase : uint8_t {
    kStart,
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits
  };
  uint8_t phase = kStart;
  uint32_t flags = 0;  // with bounds: 1 if negative, digits after the point from bit 8
  uint64_t value = 0;  // with bounds: the digits so far; without: how many of this part
};

// False where `byte` can't follow.
bool StepNumber(const NumberRules& rules, NumberState& state, uint8_t byte);
// The number may end here.
bool NumberComplete(const NumberRules& rules, const NumberState& state);
// Some number fits.
bool HasNumber(const NumberRules& rules);

// A JSON number as text, in units of 10^-12; beyond 10^18 cut to that. kUnsupported: more digits
// after the point.
Result<Int128> ParseScaled(const std::string& number);

}  // namespace slotstream::generate
