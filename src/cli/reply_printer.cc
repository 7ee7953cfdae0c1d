#include "cli/reply_printer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace slotstream::cli {
namespace {

bool Colours(FILE* stream) { return isatty(fileno(stream)) == 1; }

}  // namespace

void ReplyPrinter::Print(const generate::ReplyEvent& event) {
  if (event.kind == generate::ReplyEvent::Kind::kReasoning) {
    FILE* stream = reasoning_place_ == Reasoning::kStderr ? stderr : stdout;
    if (!in_reasoning_ && Colours(stream)) fmt::print(stream, "\033[2m");
    in_reasoning_ = true;
    reasoning_ += event.text;
    fmt::print(stream, "{}", event.text);
    std::fflush(stream);
    return;
  }
  EndReasoning();
  text_ += event.text;
  fmt::print("{}", event.text);
  std::fflush(stdout);
}

void ReplyPrinter::EndReasoning() {
  if (!in_reasoning_) return;
  in_reasoning_ = false;
  FILE* stream = reasoning_place_ == Reasoning::kStderr ? stderr : stdout;
  fmt::print(stream, "{}{}", Colours(stream) ? "\033[0m" : "",
             reasoning_.ends_with('\n') ? "" : "\n");
  std::fflush(stream);
}

void ReplyPrinter::Finish() {
  EndReasoning();
  if (!text_.empty() && !text_.ends_with('\n')) fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace slotstream::cli
