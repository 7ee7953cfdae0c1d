#include "engine/reply_memory.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/chat_template.h"

namespace slotstream::engine {
namespace {

using Kind = generate::ReplyEvent::Kind;
using text::OrderedJson;

// Of an entry, beside its ids.
constexpr uint64_t kEntryBytes = 256;

std::string_view TrimmedText(std::string_view text) {
  const text::TextRange kept = text::Trimmed(text);
  return text.substr(kept.begin, kept.end - kept.begin);
}

void AddText(std::string_view text, PromptHash& hash) {
  hash.Add(uint64_t{text.size()});
  for (; text.size() >= sizeof(uint64_t); text.remove_prefix(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, text.data(), sizeof(word));
    hash.Add(word);
  }
  for (const char c : text) hash.Add(uint64_t{static_cast<unsigned char>(c)});
}

const OrderedJson* Member(const OrderedJson& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// The schemas of a tool's arguments by their names, or null.
const OrderedJson* PropertiesOf(const OrderedJson& tools, const std::string& name) {
  if (!tools.is_array()) return nullptr;
  for (const OrderedJson& tool : tools) {
    const OrderedJson* function = Member(tool, "function");
    const OrderedJson* named = function == nullptr ? nullptr : Member(*function, "name");
    if (named == nullptr || *named != name) continue;
    const OrderedJson* parameters = Member(*function, "parameters");
    return parameters == nullptr ? nullptr : Member(*parameters, "properties");
  }
  return nullptr;
}

// Sorted by their names, without those that are their schema's default.
std::string CanonicalArguments(const text::ToolCall& call, const OrderedJson& tools) {
  nlohmann::json sorted = call.arguments;
  if (const OrderedJson* properties = PropertiesOf(tools, call.name);
      properties != nullptr && sorted.is_object()) {
    for (const auto& [name, schema] : properties->items()) {
      const OrderedJson* standard = Member(schema, "default");
      const auto given = sorted.find(name);
      if (standard != nullptr && given != sorted.end() && *given == nlohmann::json(*standard)) {
        sorted.erase(given);
      }
    }
  }
  return sorted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

state::ReplyDigest DigestOf(const text::ChatMessage& reply, const OrderedJson& tools) {
  std::string content;
  for (const text::ContentItem& item : reply.content) content += item.text;
  PromptHash said;
  AddText(TrimmedText(content), said);
  for (const text::ToolCall& call : reply.tool_calls) {
    AddText(call.name, said);
    AddText(CanonicalArguments(call, tools), said);
  }
  state::ReplyDigest digest{.said = {said.a(), said.b()}, .reasoning = 0};
  if (const std::string_view reasoning = TrimmedText(reply.reasoning); !reasoning.empty()) {
    PromptHash thought;
    AddText(reasoning, thought);
    digest.reasoning = thought.a() | 1;  // never 0, which means none
  }
  return digest;
}

void ReplyRecorder::Add(const generate::ReplyEvent& event) {
  switch (event.kind) {
    case Kind::kReasoning:
      message_.reasoning += event.text;
      break;
    case Kind::kText:
      text_ += event.text;
      break;
    case Kind::kCallBegin:
      // As the server does: space between text and a call belongs to the call's notation.
      text_.resize(text_.find_last_not_of(" \t\r\n") + 1);
      message_.tool_calls.push_back({event.name, OrderedJson::object()});
      arguments_.clear();
      break;
    case Kind::kCallArguments:
      arguments_ += event.text;
      break;
    case Kind::kCallEnd: {
      OrderedJson parsed = OrderedJson::parse(arguments_, nullptr, false);
      malformed_ |= !parsed.is_object();
      message_.tool_calls.back().arguments = std::move(parsed);
      break;
    }
    case Kind::kCallMalformed:
      malformed_ = true;
      break;
  }
}

std::optional<text::ChatMessage> ReplyRecorder::Take() {
  const bool said = !text_.empty() || !message_.tool_calls.empty();
  if (malformed_ || (!said && !message_.reasoning.empty())) return std::nullopt;
  message_.role = text::Role::kAssistant;
  message_.content = {{text::ContentItem::Kind::kText, std::move(text_)}};
  return std::move(message_);
}

ReplyMemory::Key ReplyMemory::KeyOf(const PromptHash& before, const state::ReplyDigest& digest) {
  return {before.a(), before.b(), digest.said[0], digest.said[1]};
}

void ReplyMemory::Remember(const PromptHash& before, const state::ReplyDigest& digest,
                           ReplyIds ids) {
  const Key key = KeyOf(before, digest);
  std::lock_guard lock(mutex_);
  const auto [first, last] = index_.equal_range(key);
  for (auto same = first; same != last; ++same) {
    if (*same->second->reply.ids != *ids) continue;
    entries_.splice(entries_.begin(), entries_, same->second);
    return;
  }
  bytes_ += ids->size() * sizeof(uint32_t) + kEntryBytes;
  entries_.push_front({key, {std::move(ids), digest}});
  index_.emplace(key, entries_.begin());
  while (bytes_ > budget_ && !entries_.empty()) {
    const auto oldest = std::prev(entries_.end());
    bytes_ -= oldest->reply.ids->size() * sizeof(uint32_t) + kEntryBytes;
    auto place = index_.find(oldest->key);
    while (place->second != oldest) ++place;
    index_.erase(place);
    entries_.erase(oldest);
  }
}

std::optional<ReplyMemory::Found> ReplyMemory::Find(const PromptHash& before,
                                                    const state::ReplyDigest& digest) {
  std::lock_guard lock(mutex_);
  const auto [first, last] = index_.equal_range(KeyOf(before, digest));
  // Later ones stand behind earlier ones of the same key.
  for (auto entry = last; entry != first;) {
    --entry;
    const Found& found = entry->second->reply;
    if (digest.reasoning != 0 && digest.reasoning != found.digest.reasoning) continue;
    entries_.splice(entries_.begin(), entries_, entry->second);
    return found;
  }
  return std::nullopt;
}

}  // namespace slotstream::engine
