#include "generate/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace slotstream::generate {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) patterns_.push_back(MakePattern(stop));
  }
}

StopMatcher::Pattern StopMatcher::MakePattern(const std::string& text) {
  Pattern pattern{text, std::vector<size_t>(text.size()), 0};
  size_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[i] != text[border]) border = pattern.fallback[border - 1];
    if (text[i] == text[border]) ++border;
    pattern.fallback[i] = border;
  }
  return pattern;
}

// The state stays below the pattern's length: a match ends the search.
void StopMatcher::Advance(Pattern& pattern, char byte) {
  while (pattern.state > 0 && pattern.text[pattern.state] != byte) {
    pattern.state = pattern.fallback[pattern.state - 1];
  }
  if (pattern.text[pattern.state] == byte) ++pattern.state;
}

std::string StopMatcher::Push(std::string_view text) {
  if (matched_) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    size_t longest = 0;
    for (Pattern& pattern : patterns_) {
      Advance(pattern, text[i]);
      if (pattern.state == pattern.text.size() && pattern.state > longest) {
        longest = pattern.state;
        matched_ = pattern.text;
      }
    }
    if (!matched_) continue;
    held_.append(text.substr(0, i + 1));
    held_.resize(held_.size() - longest);
    return std::exchange(held_, {});
  }
  held_.append(text);
  size_t waiting = 0;
  for (const Pattern& pattern : patterns_) waiting = std::max(waiting, pattern.state);
  std::string safe = held_.substr(0, held_.size() - waiting);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace slotstream::generate
