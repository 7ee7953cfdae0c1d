// Snapshots taken within a pass, so that none of them costs a pass of its own: a pass of many rows
// reads most experts from disk, however many rows it has.
#pragma once

#include <cstddef>
#include <span>

namespace slotstream::model {

// The state after the first `rows` tokens of a pass, of a layer or of a whole sequence.
template <typename State>
struct Capture {
  size_t rows = 0;
  State* into = nullptr;
};

// In rising order of their rows.
template <typename State>
using Captures = std::span<const Capture<State>>;

}  // namespace slotstream::model
