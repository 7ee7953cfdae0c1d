// Finds stop strings in a reply while it is written.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slotstream::generate {

// Text before a stop string is delivered, the stop string is not. Only what could still become a
// stop string is held back. The result does not depend on how the text is cut into pieces: the stop
// string that is complete first counts, of several at once the longest.
//
// Belongs to one thread. Feed it the answer, not the reasoning.
class StopMatcher {
 public:
  // Empty strings are dropped.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Text that is safe to deliver. After a match there is no more.
  std::string Push(std::string_view text);

  // The held text, at the end of a reply; empty after a match.
  std::string Flush();

  // The stop string that matched.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  // A stop string and its Knuth-Morris-Pratt automaton: a byte costs constant time.
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // [i]: the longest border of the first i + 1 bytes
    size_t state = 0;              // how many bytes of it the text ends with
  };
  static Pattern MakePattern(const std::string& text);
  static void Advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace slotstream::generate
