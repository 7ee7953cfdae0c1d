// White space around tool calls, which belongs to their notation and not to the answer.
#pragma once

#include <functional>
#include <string>

#include "generate/reply_parser.h"

namespace slotstream::server {

// Drops white space before, between and after tool calls; other text passes unchanged, its white
// space held back until what follows is known. Belongs to one thread.
class CallSpacing {
 public:
  using Sink = std::function<void(const generate::ReplyEvent&)>;

  void Push(const generate::ReplyEvent& event, const Sink& sink);
  // The end of the reply.
  void Flush(const Sink& sink);

 private:
  std::string held_;
  bool after_call_ = false;  // no text since the last call
};

}  // namespace slotstream::server
