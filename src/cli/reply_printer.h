// Prints a reply while it is generated.
#pragma once

#include <string>

#include "generate/reply_parser.h"

namespace slotstream::cli {

// The answer goes to stdout as it comes and nothing else does. Not thread-safe.
class ReplyPrinter {
 public:
  enum class Reasoning {
    kStderr,  // apart from the answer
    kDimmed,  // before the answer on stdout, in a faint colour if that is a terminal
  };
  explicit ReplyPrinter(Reasoning reasoning) : reasoning_place_(reasoning) {}

  void Print(const generate::ReplyEvent& event);
  // Ends the line.
  void Finish();

  const std::string& text() const { return text_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  void EndReasoning();

  Reasoning reasoning_place_;
  std::string text_, reasoning_;
  bool in_reasoning_ = false;
};

}  // namespace slotstream::cli
