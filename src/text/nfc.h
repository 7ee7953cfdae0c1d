// Unicode normalization form C, of Unicode 9, in linear time (a run of n marks costs n log n).
//
// Version 9 because Hugging Face's tokenizers library, by which checkpoints are trained and
// compared, still has its tables; and a fixed version gives the same ids whatever utf8proc is
// installed. Newer versions differ only in the order of marks that they added themselves, and in
// compositions of a few historic scripts.
//
// Decomposition, combining classes and composition come from utf8proc. Its own whole-string
// functions sort combining marks by insertion, which a megabyte of marks turns into minutes, so
// marks are sorted here, and only where a text may not be in form C already.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slotstream::text {

// Immutable after construction and thread-safe. Construction takes a few milliseconds.
class NfcNormalizer {
 public:
  NfcNormalizer();

  // `text` must be well-formed UTF-8. Returns `text` itself, or a view of `buffer`, which then
  // holds the normalized form.
  std::string_view Normalize(std::string_view text, std::string& buffer) const;

 private:
  // A stable scalar is in form C, is a starter, and never composes with what precedes it: text
  // may be cut before it, and the parts normalized apart.
  bool Stable(char32_t code_point) const;

  std::vector<bool> unstable_;  // by code point, below the table's end
};

}  // namespace slotstream::text
