#include "state/prefix_policy.h"

#include <algorithm>
#include <tuple>

namespace slotstream::state {
namespace {

// Requests of others after which a conversation is taken for ended. An agent's turn with its
// sub-agents, titles and memory notes stays well below.
constexpr uint64_t kIdleConversation = 64;
constexpr uint64_t kIdleShared = 4 * kIdleConversation;
// A shared beginning shorter than this is read again in a few seconds; its state's fixed part would
// hold the memory of a conversation of thousands.
constexpr size_t kLeastShared = 256;

}  // namespace

EntryClass ClassOf(const EntryHistory& entry) {
  const bool sharable = entry.length >= kLeastShared;
  const bool shared = sharable && entry.conversations >= 2;
  if (shared && entry.idle_requests < kIdleShared) return EntryClass::kShared;
  // Its conversation has gone on from it, but the next one of the same agent begins there.
  if (sharable && entry.junction && entry.idle_requests < kIdleConversation) {
    return EntryClass::kSide;
  }
  if (entry.turns_below > entry.turns) return EntryClass::kSuperseded;
  if (entry.turns < 2 || entry.idle_requests >= kIdleConversation) return EntryClass::kOneOff;
  return entry.side ? EntryClass::kSide : EntryClass::kConversation;
}

double Value(const EntryWorth& entry) {
  constexpr double kMebibyte = 1 << 20;
  const double bytes = static_cast<double>(std::max<uint64_t>(entry.bytes, 1));
  return entry.credit + static_cast<double>(entry.rebuild_tokens) * kMebibyte / bytes;
}

size_t ChooseVictim(std::span<const EntryWorth> entries) {
  const auto order = [](const EntryWorth& entry) {
    return std::tuple(entry.cls, Value(entry), entry.last_use);
  };
  const auto victim = std::ranges::min_element(entries, {}, order);
  return static_cast<size_t>(victim - entries.begin());
}

}  // namespace slotstream::state
