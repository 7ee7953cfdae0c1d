// A dialect's way to write one reply.
#pragma once

#include <cstddef>

#include "generate/generator.h"
#include "server/api_error.h"

namespace slotstream::server {

// Tokens of an accepted prompt, and how many of them the prefix cache has now. What it had when
// their turn came is in the result.
struct PromptCount {
  size_t tokens = 0;
  size_t cached = 0;
};

// Turns what happens to a request into the answer's bytes. Called by one thread at a time, never
// waits. The order is Begin, events and keep-alives, then End or Fail; or Fail alone.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;

  // The request was accepted. It may have to wait for its turn.
  virtual void Begin(const PromptCount& prompt) = 0;
  virtual void Event(const generate::ReplyEvent& event) = 0;
  // Only where the request asked for probabilities; before the events of the token.
  virtual void Token(const generate::ChosenToken&) {}
  // Nothing was written for a while: something that the dialect's clients count as life.
  virtual void KeepAlive() = 0;
  virtual void End(const generate::GenerationResult& result) = 0;
  virtual void Fail(const ApiError& error) = 0;
};

}  // namespace slotstream::server
