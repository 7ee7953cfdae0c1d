// The memory plan: a pure function from a checkpoint, a machine and wishes to a ledger in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/panel_kernels.h"
#include "plan/machine.h"

namespace slotstream::plan {

// Rows that the caller keeps of what passes give: logits [logits, vocab_size] and residual streams
// [streams, N*H], all float32.
struct KeptRows {
  uint64_t logits = 1;
  uint64_t streams = 0;
};

// What the user asked for; absent means that the planner decides.
struct Wishes {
  std::optional<uint32_t> slots;         // of the expert pool
  std::optional<uint32_t> pass_rows;     // tokens per prefill pass
  std::optional<uint64_t> memory_bytes;  // of the whole process
  std::optional<uint32_t> max_context;   // tokens of prompt and reply together
  std::optional<int> threads;
  kernels::ComputeMode compute = kernels::kDefaultComputeMode;
  bool every_mode = false;  // passes may have other modes than `compute`
  KeptRows kept = {};
  bool fixed = false;          // sizes stay as planned, whatever else happens on the machine
  uint64_t request_bytes = 0;  // what a server's requests may take at most
  // Of the prefix cache; 0: none; absent: a share of what is left.
  std::optional<uint64_t> prefix_cache_bytes = 0;
};

struct LedgerLine {
  std::string name;
  uint64_t bytes = 0;
};

struct Plan {
  uint32_t slots = 0;
  uint32_t all_slots = 0;  // that would hold every expert
  uint32_t pass_rows = 0;
  uint32_t sweep_records = 0;
  uint32_t sweep_rows = 0;
  uint64_t ngram_cache_rows = 0;  // per n-gram layer
  uint32_t ngram_areas = 0;
  uint32_t max_context = 0;
  int threads = 1;
  kernels::ComputeMode compute = kernels::kDefaultComputeMode;
  bool every_mode = false;
  KeptRows kept = {};
  uint64_t request_bytes = 0;
  uint64_t prefix_cache_bytes = 0;
  std::vector<LedgerLine> ledger;
  uint64_t total = 0;   // the sum of the ledger
  uint64_t budget = 0;  // what the plan had to fit in
  // Slots that the pool may grow to when the machine has more free than now: `slots` unless the
  // plan is all the planner's own.
  uint32_t most_slots = 0;
  uint32_t least_slots = 0;  // and shrink to
  bool fixed = false;        // nothing shrinks or grows
  uint64_t slot_bytes = 0;
  // What was cut to fit and why, for people.
  std::vector<std::string> notes;

  // One line for people.
  std::string Summary() const;
};

// What a plan without a wish for memory may use: the machine keeps a tenth of what is available, at
// least 256 MB of a whole machine, 32 MB of a control group that is smaller than it, and never
// less than half is used.
uint64_t DefaultBudget(const MachineFacts& machine);

// The fewest slots that a pool may have: twice what one token needs of one layer.
uint32_t MinSlots(const checkpoint::ModelConfig& config);

// kResourceLimit, with the nearest possible plan in the message, when the wishes do not fit into
// the memory wished for, or what then is planned not into what is available; kInvalidArgument for
// wishes that make no sense. A wish beats the planner's choice; two wishes that contradict each
// other are refused.
Result<Plan> MakePlan(const checkpoint::Checkpoint& checkpoint, const MachineFacts& machine,
                      const Wishes& wishes);

// "1.2 GB", decimal.
std::string FormatBytes(uint64_t bytes);

}  // namespace slotstream::plan
