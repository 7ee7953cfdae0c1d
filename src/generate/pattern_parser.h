// Reads a pattern's text into its automaton (generate/pattern.h).
#pragma once

#include <string_view>
#include <vector>

#include "generate/pattern.h"

namespace slotstream::generate {

class PatternParser {
 public:
  PatternParser(std::string_view text, const CharRanges& barred, Pattern& pattern);
  Status Run();

 private:
  struct Part {  // of the automaton
    uint32_t first, last;
  };

  std::unexpected<Error> Refuse(std::string_view what) const;
  bool AtEnd() const { return at_ == text_.size(); }
  char32_t Peek() const { return AtEnd() ? 0 : text_[at_]; }
  bool Eat(char32_t c);

  uint32_t Add();
  Part Reader(const CharRanges& ranges);
  Part Empty();
  Part Join(Part first, Part second);
  Part AnyRun();  // any characters

  Result<Part> Alternatives(bool top);
  Result<Part> Branch(bool top);
  Result<Part> Repeated();
  Result<Part> Repeat(size_t begin, Part once, uint64_t least, uint64_t most);
  Result<Part> Atom();
  Result<CharRanges> Class();
  Result<CharRanges> Escape(bool in_class);
  Result<char32_t> Hex(int digits);
  uint64_t Digits();

  std::vector<char32_t> text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool valid_ = true;
  const CharRanges& barred_;
  Pattern& pattern_;
};

}  // namespace slotstream::generate
