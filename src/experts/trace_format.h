// The bytes of an expert trace, as writer and reader share them (docs/FORMATS.md 6).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace slotstream::experts {

inline constexpr std::array<char, 8> kTraceMagic = {'s', 's', 't', 'r', 'a', 'c', 'e', '\n'};
inline constexpr uint32_t kTraceVersion = 1;

struct TraceFileHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t layers;
  uint32_t experts;
  uint32_t top_k;
  uint32_t sweep_rows;
  uint32_t crc;  // CRC-32C of what is before it
};
static_assert(sizeof(TraceFileHeader) == 32);

inline constexpr uint16_t kTracePrompt = 1;
inline constexpr uint16_t kTraceAdmit = 2;
// Layer of the record that ends a trace; its position is the number of visits.
inline constexpr uint16_t kTraceEnd = 0xffff;

// Followed by rows * top_k experts, u16 each.
struct TraceFileRecord {
  uint32_t position;
  uint16_t layer;
  uint16_t flags;
  uint32_t rows;
};
static_assert(sizeof(TraceFileRecord) == 12);

}  // namespace slotstream::experts
