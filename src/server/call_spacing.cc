#include "server/call_spacing.h"

#include <utility>

namespace slotstream::server {

using Kind = generate::ReplyEvent::Kind;

void CallSpacing::Push(const generate::ReplyEvent& event, const Sink& sink) {
  switch (event.kind) {
    case Kind::kText: {
      std::string text = std::exchange(held_, {}) + event.text;
      const size_t last = text.find_last_not_of(" \t\r\n");
      const size_t end = last == std::string::npos ? 0 : last + 1;
      held_ = text.substr(end);
      if (end == 0) return;
      text.resize(end);
      after_call_ = false;
      sink({.kind = Kind::kText, .text = std::move(text)});
      return;
    }
    case Kind::kCallBegin:
      held_.clear();
      break;
    case Kind::kCallMalformed:
      // Its block may be shown as text, so the space before it counts.
      Flush(sink);
      break;
    case Kind::kCallEnd:
      after_call_ = true;
      break;
    case Kind::kReasoning:
    case Kind::kCallArguments:
      break;
  }
  sink(event);
}

void CallSpacing::Flush(const Sink& sink) {
  std::string held = std::exchange(held_, {});
  if (held.empty() || after_call_) return;
  sink({.kind = Kind::kText, .text = std::move(held)});
}

}  // namespace slotstream::server
