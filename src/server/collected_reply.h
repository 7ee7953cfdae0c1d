// A whole reply put together from its events.
#pragma once

#include <string>
#include <vector>

#include "generate/generator.h"

namespace slotstream::server {

struct CollectedCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object
};

struct CollectedReply {
  std::string reasoning;
  std::string text;  // blocks that look like calls and are none included, as written
  std::vector<CollectedCall> calls;
  std::vector<generate::ChosenToken> tokens;  // of the answer, where probabilities were asked for

  void Add(const generate::ReplyEvent& event);

 private:
  bool call_open_ = false;
};

// True for a reply that ended because its tokens or its context ran out.
bool RanOut(const generate::GenerationResult& result);

}  // namespace slotstream::server
