// Which part of a prompt is a reply of ours, and what clients know it by.
#pragma once

#include <array>
#include <cstdint>

namespace slotstream::state {

// A reply after parsing: 128 bits of its text and calls, 64 of its reasoning or 0 without any.
struct ReplyDigest {
  std::array<uint64_t, 2> said = {};
  uint64_t reasoning = 0;
  bool operator==(const ReplyDigest&) const = default;
};

// The ids [begin, end) of a prompt, or of a prompt and its reply.
struct ReplyNote {
  uint32_t begin = 0, end = 0;
  ReplyDigest digest;
  bool operator==(const ReplyNote&) const = default;
};

}  // namespace slotstream::state
