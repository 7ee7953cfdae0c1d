// Splits a streamed reply into reasoning and answer.
#pragma once

#include <string>
#include <string_view>

namespace slotstream::text {

// The prompt ends with "<think>\n", so a reply begins as reasoning and becomes the answer at the
// first "</think>". Line breaks between the tag and the answer are dropped. What could still become
// the tag is held back. Use one per reply, and only where thinking was asked for.
class ThinkSplitter {
 public:
  struct Delta {
    std::string reasoning;
    std::string content;
  };

  Delta Push(std::string_view text);

  // The rest, at the end of the reply.
  Delta Flush();

  bool closed() const { return closed_; }

 private:
  std::string pending_;  // the beginning of a possible tag
  bool closed_ = false;
  bool at_content_start_ = true;
};

}  // namespace slotstream::text
