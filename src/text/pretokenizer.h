// Cuts text into the words that byte-pair merging may not cross, by the Split pattern of a
// tokenizer.json (behavior "Isolated": every match is a word, and so is every gap between two).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

struct pcre2_real_code_8;

namespace slotstream::text {

// Immutable and thread-safe.
class Pretokenizer {
 public:
  // `pattern` as it stands in tokenizer.json. Errors: kUnsupported.
  static Result<Pretokenizer> Compile(std::string_view pattern);

 private:
  friend class WordCursor;
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
};

// Walks the words of one text. Belongs to one thread; both arguments must outlive it.
class WordCursor {
 public:
  // `text` must be well-formed UTF-8.
  WordCursor(const Pretokenizer& pretokenizer, std::string_view text);
  ~WordCursor();
  WordCursor(const WordCursor&) = delete;
  WordCursor& operator=(const WordCursor&) = delete;

  // The next word; empty at the end of the text. Joined, the words are the text.
  // Errors: kResourceLimit where the pattern backtracks beyond reason.
  Result<std::string_view> Next();

 private:
  struct MatchState;
  const Pretokenizer& pretokenizer_;
  std::string_view text_;
  size_t offset_ = 0;
  std::unique_ptr<MatchState> state_;
};

}  // namespace slotstream::text
