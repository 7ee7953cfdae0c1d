// Byte automata for the free texts of a constrained reply: what a JSON string or a parameter of a
// tool call may hold, and where it ends. Text is well-formed UTF-8.
#pragma once

#include <cstdint>

namespace slotstream::generate {

enum class TextForm : uint8_t {
  kJson,        // after a string's opening quote, to its closing one; escapes, surrogates in pairs
  kJsonInCall,  // the same, without the text "</parameter>", which would end the parameter
  kKey,         // a member's name: as kJson, without escapes
  kKeyInCall,
  kRaw,      // a parameter that is a string: all up to "\n</parameter>", control characters apart
  kGuessed,  // as kRaw, but nothing that text::CoerceParameter takes for another type
  kPlain,  // a parameter that a pattern governs, up to the "\n</parameter>" behind it; not scanned
};
// States are small numbers, below this.
inline constexpr int kScanStates = 64;

uint8_t ScanStart(TextForm form);

// `added`: characters (code points) that are now certainly content; an escape counts when it
// begins, a surrogate pair once, and bytes that may belong to "\n</parameter>" when they turn out
// not to.
struct ScanStep {
  enum class Kind : uint8_t { kReject, kStay, kEnd };
  Kind kind = Kind::kReject;
  uint8_t state = 0;
  uint8_t added = 0;
};
ScanStep Scan(TextForm form, uint8_t state, uint8_t byte);

// How many bytes of "\n</parameter>" the text ends with, not counted yet.
unsigned PendingBytes(uint8_t state);
inline constexpr unsigned kMostPendingBytes = 12;

}  // namespace slotstream::generate
