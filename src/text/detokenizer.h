// Token ids to text, one at a time, as a reply is generated.
#pragma once

#include <string>

#include "base/result.h"
#include "text/tokenizer.h"

namespace slotstream::text {

// A token may end inside a character; its bytes wait here until the character is complete or can
// no longer become one. So every piece of text is whole UTF-8, and the pieces joined, with Flush,
// are byte for byte what Tokenizer::Decode makes of all ids. At most 3 bytes wait.
//
// Belongs to one thread; the tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that `id` completes; often empty. After an error nothing has changed.
  // Errors: kInvalidArgument for an id without a token.
  Result<std::string> Push(TokenId id);

  // The rest: U+FFFD for an incomplete character, or nothing. Push may follow for another text.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string pending_;  // the beginning of a character
};

}  // namespace slotstream::text
