// Which stored state goes when room is needed. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slotstream::state {

// From the first to go to the last. Only an order by class keeps a long conversation safe from any
// number of small requests beside it.
enum class EntryClass : uint8_t {
  kSuperseded,  // its conversation has gone on from it
  kOneOff,      // asked once: titles, and conversations that may begin
  kSide,        // a sub-agent's conversation, or what other conversations may begin with
  kConversation,
  kShared,  // several conversations begin with it
};
inline constexpr size_t kEntryClasses = 5;

// What is known of a stored state.
struct EntryHistory {
  size_t length = 0;           // tokens
  uint64_t turns = 1;          // requests of its conversation up to it
  uint64_t turns_below = 0;    // the most of any longer state that begins with it; 0 without one
  uint64_t conversations = 1;  // that have begun with it
  bool junction = false;       // tools and system: others are expected to begin with it
  bool side = false;           // the client says that a sub-agent asks
  uint64_t idle_requests = 0;  // of others since its own conversation's last
};

EntryClass ClassOf(const EntryHistory& entry);

// What speaks for and against keeping a state.
struct EntryWorth {
  EntryClass cls = EntryClass::kOneOff;
  uint64_t rebuild_tokens = 0;  // to be read again where it is missed: since the next shorter state
  uint64_t bytes = 0;           // that go with it and with nothing else
  double credit = 0;            // see Value
  uint64_t last_use = 0;
};

// Tokens saved per mebibyte, above the credit: the value of the last victim at the state's last
// use. (Greedy-dual size frequency, Cherkasova 1998: what was not used for long falls behind
// whatever is taken in now.)
double Value(const EntryWorth& entry);

// The index of the entry to go: lowest class, then lowest value, then longest unused, then first.
// There is at least one.
size_t ChooseVictim(std::span<const EntryWorth> entries);

}  // namespace slotstream::state
