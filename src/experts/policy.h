// Which slot goes when one is needed.
#pragma once

#include <cstdint>
#include <functional>

namespace slotstream::experts {

// Sees the pool's slots as numbers in [0, slots), and what they hold as entries, numbers that name
// an expert of a layer. Not thread-safe. Victims are a matter of speed only: no choice changes a
// bit of the output.
class Policy {
 public:
  virtual ~Policy() = default;
  // A slot gets a new entry. Its last one went by ChooseVictim, or by a read that failed.
  virtual void Filled(uint32_t slot, uint32_t entry) = 0;
  // A slot's entry was used again.
  virtual void Used(uint32_t slot) = 0;
  // A slot for which `evictable` holds; the caller knows that there is one. The slot's entry is
  // gone afterwards.
  virtual uint32_t ChooseVictim(const std::function<bool(uint32_t)>& evictable) = 0;
  // What slot `from` holds is now in slot `to`, which held nothing; nothing else about it changes.
  virtual void Moved(uint32_t from, uint32_t to) = 0;
  // The pool now has the slots [0, slots), at most as many as the policy was made for; the others
  // hold nothing.
  virtual void Resized(uint32_t slots) = 0;
};

}  // namespace slotstream::experts
