// Regular expressions of JSON Schema (a part of ECMA-262's), character by character and with a way
// to the end known at each: no library of regular expressions tells what may still follow.
//
// Kept: literals, ".", classes, \d \w \s and their opposites, \xHH, \uHHHH and single-letter
// escapes, groups, "|", * + ? {n} {n,} {n,m}, ^ and $ at the ends. Like all of JSON Schema's
// patterns one without ^ or $ may stand anywhere. Refused: \b, \p, look-around, back references, ^
// and $ within.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace slotstream::generate {

using CharRange = std::pair<char32_t, char32_t>;  // both inclusive
inline constexpr char32_t kLastCharacter = 0x10FFFF;

// Immutable: a nondeterministic automaton of which each state has a way to the end.
class Pattern {
 public:
  static constexpr uint32_t kNever = UINT32_MAX;

  // `barred`: characters that can't be written. Errors: kUnsupported, kInvalidArgument,
  // kResourceLimit (too many states).
  static Result<Pattern> Compile(std::string_view text, const std::vector<CharRange>& barred);
  // The same for texts of `min` to `max` characters. kResourceLimit: too many states.
  Result<Pattern> Bounded(uint64_t min, uint64_t max) const;

  bool possible() const { return states_[start_].shortest != kNever; }
  size_t size() const { return states_.size(); }

 private:
  friend class PatternRun;
  friend class PatternParser;
  struct State {
    std::vector<CharRange> ranges;  // what it reads, to go to the state behind it
    uint32_t next = 0;
    std::vector<uint32_t> free;  // where it goes without reading
    uint32_t shortest = kNever;  // characters to the end
    uint64_t longest = 0;        // likewise; UINT64_MAX: without a bound. Not of Bounded
  };

  void MeasureShortest();
  void MeasureLongest();

  std::vector<State> states_;
  uint32_t start_ = 0, end_ = 0;
};

// Sets of a pattern's states, numbered as they are met. One thread.
class PatternRun {
 public:
  static constexpr uint32_t kDead = UINT32_MAX;
  explicit PatternRun(const Pattern& pattern);

  static constexpr uint32_t kStart = 0;
  uint32_t Step(uint32_t set, char32_t character);
  // Some character from `low` to `high` can follow.
  bool CanRead(uint32_t set, char32_t low, char32_t high) const;
  bool Complete(uint32_t set) const { return sets_[set].complete; }

 private:
  struct Set {
    std::vector<uint32_t> readers;  // states that read
    bool complete = false;
  };
  uint32_t Intern(std::vector<uint32_t> from);

  const Pattern& pattern_;
  std::vector<Set> sets_;
  std::map<std::vector<uint32_t>, uint32_t> ids_;
  std::map<std::pair<uint32_t, char32_t>, uint32_t> steps_;  // of ASCII
};

// The pattern of a format of JSON Schema, or nothing for one that has none here.
std::string_view PatternOfFormat(std::string_view format);

}  // namespace slotstream::generate
