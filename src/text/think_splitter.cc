#include "text/think_splitter.h"

#include <utility>

#include "text/partial_match.h"

namespace slotstream::text {
namespace {

constexpr std::string_view kTag = "</think>";

}  // namespace

ThinkSplitter::Delta ThinkSplitter::Push(std::string_view text) {
  Delta delta;
  if (!closed_) {
    pending_.append(text);
    const size_t tag = pending_.find(kTag);
    if (tag == std::string::npos) {
      const size_t held = PartialMatch(pending_, kTag);
      delta.reasoning = pending_.substr(0, pending_.size() - held);
      pending_.erase(0, pending_.size() - held);
      return delta;
    }
    closed_ = true;
    delta.reasoning = pending_.substr(0, tag);
    delta.content = pending_.substr(tag + kTag.size());
    pending_.clear();
  } else {
    delta.content = text;
  }
  if (at_content_start_) {
    delta.content.erase(0, delta.content.find_first_not_of('\n'));
    at_content_start_ = delta.content.empty();
  }
  return delta;
}

ThinkSplitter::Delta ThinkSplitter::Flush() { return {std::exchange(pending_, {}), {}}; }

}  // namespace slotstream::text
