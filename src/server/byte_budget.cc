#include "server/byte_budget.h"

namespace slotstream::server {

std::shared_ptr<void> ByteBudget::Take(uint64_t bytes) {
  uint64_t held = held_->load();
  do {
    if (bytes > most_ || held > most_ - bytes) return nullptr;
  } while (!held_->compare_exchange_weak(held, held + bytes));
  // The pointer is never read: what counts is its deleter.
  return {held_.get(), [held = held_, bytes](void*) { *held -= bytes; }};
}

}  // namespace slotstream::server
