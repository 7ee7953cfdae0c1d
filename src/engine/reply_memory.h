// The ids that replies were made of, found again when a client sends a reply back as text.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/prompt_hash.h"
#include "generate/reply_parser.h"
#include "state/reply_note.h"
#include "text/chat_request.h"

namespace slotstream::engine {

using ReplyIds = std::shared_ptr<const std::vector<uint32_t>>;

// What a reply is to those who send it back: its text and calls as parsed. Spaces at its ends, the
// order and notation of arguments, and arguments that only say what the tool's schema has as their
// default do not count.
state::ReplyDigest DigestOf(const text::ChatMessage& reply, const text::OrderedJson& tools);

// Makes the message of a reply that a client will send back, from its events.
class ReplyRecorder {
 public:
  void Add(const generate::ReplyEvent& event);
  // Nothing where what a client sends back is not what the model wrote: a call that isn't one, or
  // reasoning that did not end, which the template would end.
  std::optional<text::ChatMessage> Take();

 private:
  text::ChatMessage message_;
  std::string text_;
  std::string arguments_;
  bool malformed_ = false;
};

// Thread-safe.
class ReplyMemory {
 public:
  // `bytes` bound the ids that are kept; what was longest unused goes first.
  explicit ReplyMemory(uint64_t bytes) : budget_(bytes) {}

  // The reply `ids` to the prompt that ends with `before`.
  void Remember(const PromptHash& before, const state::ReplyDigest& digest, ReplyIds ids);

  // The ids of the reply to the prompt that ends with `before` which equals `digest`, the latest of
  // several. A digest without reasoning stands for a reply with any: clients that leave it out get
  // it back. The digest of what was found comes with it.
  struct Found {
    ReplyIds ids;
    state::ReplyDigest digest;
  };
  std::optional<Found> Find(const PromptHash& before, const state::ReplyDigest& digest);

 private:
  using Key = std::array<uint64_t, 4>;  // of the prompt, of text and calls
  struct Entry {
    Key key;
    Found reply;
  };
  using Entries = std::list<Entry>;

  static Key KeyOf(const PromptHash& before, const state::ReplyDigest& digest);

  const uint64_t budget_;
  std::mutex mutex_;  // for all below
  Entries entries_;   // the latest used first
  std::multimap<Key, Entries::iterator> index_;
  uint64_t bytes_ = 0;
};

}  // namespace slotstream::engine
