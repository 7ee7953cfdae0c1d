#include "server/collected_reply.h"

#include <utility>

namespace slotstream::server {

using Kind = generate::ReplyEvent::Kind;

void CollectedReply::Add(const generate::ReplyEvent& event) {
  switch (event.kind) {
    case Kind::kReasoning:
      reasoning += event.text;
      break;
    case Kind::kText:
      text += event.text;
      break;
    case Kind::kCallBegin:
      calls.push_back({event.id, event.name, ""});
      call_open_ = true;
      break;
    case Kind::kCallArguments:
      calls.back().arguments += event.text;
      break;
    case Kind::kCallEnd:
      call_open_ = false;
      break;
    case Kind::kCallMalformed:
      text += event.text;
      if (std::exchange(call_open_, false)) calls.pop_back();
      break;
  }
}

bool RanOut(const generate::GenerationResult& result) {
  return result.reason == generate::FinishReason::kLength ||
         result.reason == generate::FinishReason::kContext;
}

}  // namespace slotstream::server
