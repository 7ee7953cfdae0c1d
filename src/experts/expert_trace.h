// Recorded visits of layers: which tokens went to which experts (docs/FORMATS.md 6).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "experts/admission.h"

namespace slotstream::experts {

struct TraceHeader {
  uint32_t layers = 0;
  uint32_t experts = 0;     // of a layer
  uint32_t top_k = 0;       // experts of a token
  uint32_t sweep_rows = 0;  // passes of at least this many rows swept past the pool
  bool operator==(const TraceHeader&) const = default;
};

// Bounds of what is written and read: a hundred times the published model's 48 layers of 512.
inline constexpr uint32_t kMaxTraceExperts = 1 << 22;  // of all layers
inline constexpr uint32_t kMaxTraceRows = 1 << 20;     // of a pass

// One layer's part of a pass.
struct TraceVisit {
  uint32_t position = 0;  // in its sequence, of the pass's first token
  uint32_t layer = 0;
  uint32_t rows = 0;    // tokens of the pass
  bool prompt = false;  // the pass reads a prompt
  bool admit = false;   // it is the prompt's last
};

struct Trace {
  TraceHeader header;
  std::vector<TraceVisit> visits;
  std::vector<ExpertNeed> needs;
  std::vector<size_t> begin;  // [visits + 1]: of a visit's needs
  bool complete = false;      // ends as its writer meant; otherwise it is what a killed run left

  // Of the i-th visit, distinct, by rising expert.
  std::span<const ExpertNeed> NeedsOf(size_t i) const {
    return std::span(needs).subspan(begin[i], begin[i + 1] - begin[i]);
  }
};

// kInvalidArgument when the file is no trace, kUnsupported for another version, kCorrupt (with the
// offset) for values that no writer writes, and the errors of reading. A file that was cut short
// gives its whole visits.
Result<Trace> ReadTrace(const std::string& path);

}  // namespace slotstream::experts
