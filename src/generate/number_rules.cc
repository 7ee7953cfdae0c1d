#include "generate/number_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace slotstream::generate {
namespace {

constexpr unsigned kSignBit = 1, kFractionShift = 8;

Int128 Power10(unsigned exponent) {
  Int128 power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

const Int128 kUnit = Power10(kFractionDigits);
const Int128 kLimit = Power10(kMostDigits) * kUnit;

unsigned DigitsOf(uint64_t value) {
  unsigned digits = 1;
  while (value >= 10) {
    value /= 10;
    ++digits;
  }
  return digits;
}

unsigned Fraction(const NumberState& state) { return state.flags >> kFractionShift; }

// The bounds of the magnitude.
NumberBounds Magnitudes(const NumberRules& rules, const NumberState& state) {
  const NumberBounds& bounds = *rules.bounds;
  if ((state.flags & kSignBit) != 0) return {std::max<Int128>(-bounds.high, 0), -bounds.low};
  return {std::max<Int128>(bounds.low, 0), bounds.high};
}

// A multiple of `grid` lies in both ranges.
bool Meets(Int128 first, Int128 last, Int128 grid, const NumberBounds& bounds) {
  const Int128 low = std::max(first, bounds.low), high = std::min(last, bounds.high);
  return (low + grid - 1) / grid * grid <= high;
}

// Whether digits can be added to `value`, with `fraction` of its digits after the point, so that
// the number is within bounds; `open`: more digits may come before the point.
bool Reachable(const NumberRules& rules, const NumberState& state, uint64_t value,
               unsigned fraction, bool open) {
  const NumberBounds bounds = Magnitudes(rules, state);
  const unsigned digits = std::max(DigitsOf(value), fraction + 1);
  if (digits > kMostDigits) return false;
  const auto meets = [&](unsigned more) {  // digits before the point
    const unsigned left = rules.integer ? 0 : kMostDigits - digits - more;
    const unsigned after = std::min(kFractionDigits, fraction + left);
    const Int128 scale = Power10(kFractionDigits - fraction + more);
    const Int128 first = static_cast<Int128>(value) * scale;
    const Int128 last = rules.integer && more == 0 ? first : first + scale - 1;
    return Meets(first, last, Power10(kFractionDigits - after), bounds);
  };
  if (meets(0)) return true;
  if (!open || value == 0) return false;
  for (unsigned more = 1; digits + more <= kMostDigits; ++more) {
    if (meets(more)) return true;
  }
  return false;
}

bool StepBounded(const NumberRules& rules, NumberState& state, uint8_t byte) {
  const bool digit = byte >= '0' && byte <= '9';
  const uint64_t value = state.value * 10 + (byte - uint64_t{'0'});
  switch (state.phase) {
    case NumberState::kStart:
      if (byte == '-') {
        state = {NumberState::kMinus, kSignBit, 0};
        const NumberBounds bounds = Magnitudes(rules, state);
        const Int128 least = rules.integer ? kUnit : 0;  // an integer's "-0" is left out
        return Meets(least, kLimit - 1, rules.integer ? kUnit : Int128{1}, bounds);
      }
      [[fallthrough]];
    case NumberState::kMinus:
      if (!digit || (byte == '0' && rules.integer && state.phase == NumberState::kMinus)) {
        return false;
      }
      state.phase = byte == '0' ? NumberState::kZero : NumberState::kDigits;
      state.value = byte - uint64_t{'0'};
      return Reachable(rules, state, state.value, 0, byte != '0');
    case NumberState::kDigits:
      if (digit) {
        if (DigitsOf(state.value) >= kMostDigits) return false;
        state.value = value;
        return Reachable(rules, state, value, 0, true);
      }
      [[fallthrough]];
    case NumberState::kZero:
      if (byte != '.' || rules.integer || DigitsOf(state.value) >= kMostDigits) return false;
      state.phase = NumberState::kPoint;
      return Reachable(rules, state, state.value, 0, false);
    case NumberState::kPoint:
    case NumberState::kFraction: {
      const unsigned fraction = Fraction(state) + 1;
      if (!digit || fraction > kFractionDigits) return false;
      if (!Reachable(rules, state, value, fraction, false)) return false;
      state.phase = NumberState::kFraction;
      state.value = value;
      state.flags += 1u << kFractionShift;
      return true;
    }
    default:
      return false;
  }
}

bool StepFree(const NumberRules& rules, NumberState& state, uint8_t byte) {
  const bool digit = byte >= '0' && byte <= '9';
  const auto count = [&](uint8_t phase, unsigned most) {
    if (!digit || (state.phase == phase && state.value >= most)) return false;
    state = {phase, 0, state.phase == phase ? state.value + 1 : 1};
    return true;
  };
  switch (state.phase) {
    case NumberState::kStart:
      if (byte == '-') {
        state.phase = NumberState::kMinus;
        return true;
      }
      [[fallthrough]];
    case NumberState::kMinus:
      if (byte == '0') {
        if (rules.integer && state.phase == NumberState::kMinus) return false;
        state.phase = NumberState::kZero;
        return true;
      }
      return count(NumberState::kDigits, kMostDigits);
    case NumberState::kDigits:
      if (digit) return count(NumberState::kDigits, kMostDigits);
      [[fallthrough]];
    case NumberState::kZero:
      if (rules.integer) return false;
      if (byte == '.') {
        state = {NumberState::kPoint, 0, 0};
        return true;
      }
      break;
    case NumberState::kPoint:
      return count(NumberState::kFraction, kMostDigits);
    case NumberState::kFraction:
      if (digit) return count(NumberState::kFraction, kMostDigits);
      break;
    case NumberState::kExponent:
      if (byte == '+' || byte == '-') {
        state = {NumberState::kExponentSign, 0, 0};
        return true;
      }
      [[fallthrough]];
    default:
      return count(NumberState::kExponentDigits, kExponentDigits);
  }
  if (byte != 'e' && byte != 'E') return false;
  state = {NumberState::kExponent, 0, 0};
  return true;
}

}  // namespace

bool StepNumber(const NumberRules& rules, NumberState& state, uint8_t byte) {
  return rules.bounds ? StepBounded(rules, state, byte) : StepFree(rules, state, byte);
}

bool NumberComplete(const NumberRules& rules, const NumberState& state) {
  switch (state.phase) {
    case NumberState::kZero:
    case NumberState::kDigits:
    case NumberState::kFraction:
    case NumberState::kExponentDigits:
      break;
    default:
      return false;
  }
  if (!rules.bounds) return true;
  const Int128 value =
      static_cast<Int128>(state.value) * Power10(kFractionDigits - Fraction(state));
  const NumberBounds bounds = Magnitudes(rules, state);
  return value >= bounds.low && value <= bounds.high;
}

bool HasNumber(const NumberRules& rules) {
  for (uint8_t byte :
       {uint8_t{'-'}, uint8_t{'0'}, uint8_t{'1'}, uint8_t{'2'}, uint8_t{'3'}, uint8_t{'4'},
        uint8_t{'5'}, uint8_t{'6'}, uint8_t{'7'}, uint8_t{'8'}, uint8_t{'9'}}) {
    NumberState state;
    if (StepNumber(rules, state, byte)) return true;
  }
  return false;
}

Result<Int128> ParseScaled(const std::string& number) {
  size_t at = 0;
  const bool negative = number.starts_with('-');
  if (negative) ++at;
  Int128 value = 0;
  int scale = 0;  // the value is value * 10^-scale
  bool point = false;
  for (; at < number.size() && number[at] != 'e' && number[at] != 'E'; ++at) {
    if (number[at] == '.') {
      point = true;
    } else if (value < kLimit * 1000) {  // 33 digits: a double's 17 and every whole number
      value = value * 10 + (number[at] - '0');
      if (point) ++scale;
    } else if (!point) {
      --scale;
    }
  }
  if (at < number.size()) scale -= std::clamp(std::atoi(number.c_str() + at + 1), -999, 999);
  int shift = static_cast<int>(kFractionDigits) - scale;
  for (; shift > 0 && value < kLimit; --shift) value *= 10;
  for (; shift < 0 && value != 0; ++shift) {
    if (value % 10 != 0) {
      return Fail(ErrorCode::kUnsupported, fmt::format("{} has more than {} digits after its point",
                                                       number, kFractionDigits));
    }
    value /= 10;
  }
  value = std::min(value, kLimit);
  return negative ? -value : value;
}

}  // namespace slotstream::generate
