// Regular expressions of JSON Schema (a part of ECMA-262's), character by character and with a way
// to the end known at each: no library of regular expressions tells what may still follow.
//
// Kept: literals, ".", classes, \d \w \s and their opposites, \xHH, \uHHHH and single-letter
// escapes, groups, "|", * + ? {n} {n,} {n,m}, ^ and $ at the ends. Like all of JSON Schema's
// patterns one without ^ or $ may stand anywhere. Refused: \b, \p, look-around, back references, ^
// and $ within.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "generate/char_ranges.h"

namespace slotstream::generate {

// Immutable: a nondeterministic automaton of which each state has a way to the end.
class Pattern {
 public:
  static constexpr uint32_t kNever = UINT32_MAX;

  // `barred`: characters that can't be written. Errors: kUnsupported, kInvalidArgument,
  // kResourceLimit (too many states).
  static Result<Pattern> Compile(std::string_view text, const CharRanges& barred);
  // The same for texts of `min` to `max` characters. kResourceLimit: too many states.
  Result<Pattern> Bounded(uint64_t min, uint64_t max) const;

  bool possible() const { return states_[start_].shortest != kNever; }
  size_t size() const { return states_.size(); }
  // The first characters of classes, rising, from 0 on: all states read all of a class or nothing
  // of it.
  const std::vector<char32_t>& classes() const { return classes_; }

 private:
  friend class PatternRun;
  friend class PatternParser;
  struct State {
    CharRanges ranges;  // what it reads, to go to the state behind it
    uint32_t next = 0;
    std::vector<uint32_t> free;  // where it goes without reading
    uint32_t shortest = kNever;  // characters to the end
    uint64_t longest = 0;        // likewise; UINT64_MAX: without a bound. Not of Bounded
  };

  void FindClasses();
  size_t ClassOf(char32_t character) const;

  void MeasureShortest();
  void MeasureLongest();

  std::vector<State> states_;
  uint32_t start_ = 0, end_ = 0;
  std::vector<char32_t> classes_;  // see classes()
};

// Sets of a pattern's states, numbered as they are met. One thread.
class PatternRun {
 public:
  static constexpr uint32_t kDead = UINT32_MAX;
  // Takes from `bytes` what new sets cost. Where nothing is left a new set is cut to its one state
  // that is nearest to the end: a pattern can have more sets than there is memory.
  PatternRun(const Pattern& pattern, size_t& bytes);

  static constexpr uint32_t kStart = 0;
  uint32_t Step(uint32_t set, char32_t character);
  // Some character from `low` to `high` can follow.
  bool CanRead(uint32_t set, char32_t low, char32_t high) const;
  bool Complete(uint32_t set) const { return sets_[set].complete; }
  // Reads so much of ASCII that most of a vocabulary follows.
  bool Wide(uint32_t set) const { return sets_[set].wide; }
  // What a step from here may cost at most, whether it was taken before or not, where a step that
  // was is 1: so that work can be bounded by numbers that depend on the text alone.
  uint64_t StepWork(uint32_t set) const { return sets_[set].step_work; }

 private:
  struct Set {
    std::vector<uint32_t> readers;  // states that read
    bool complete = false, wide = false;
    uint64_t step_work = 1;
    std::vector<uint32_t> steps;  // by a character's class, see kUnknown; empty: not kept
  };
  static constexpr uint32_t kUnknown = kDead - 1;  // not taken yet
  uint32_t Intern(std::vector<uint32_t> from);
  void Measure(Set& set) const;

  const Pattern& pattern_;
  size_t& bytes_;
  std::array<uint32_t, 128> ascii_classes_;
  std::vector<Set> sets_;
  std::map<std::vector<uint32_t>, uint32_t> ids_;
};

// The pattern of a format of JSON Schema, or nothing for one that has none here.
std::string_view PatternOfFormat(std::string_view format);

}  // namespace slotstream::generate
