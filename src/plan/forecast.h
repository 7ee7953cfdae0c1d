// How fast a plan will run here: a pure function of measured rates.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "plan/model_cost.h"
#include "plan/plan.h"
#include "plan/rates.h"

namespace slotstream::plan {

// What a forecast needs to know of a model.
struct ModelShape {
  checkpoint::ModelConfig config;
  TokenCost cost;
  double record_bytes = 0;
  double expert_bytes = 0;       // of a record, without what fills its last page
  double expert_operations = 0;  // of one expert and one row
  double ngram_rows = 0;         // per token
};
ModelShape ShapeOf(const checkpoint::Checkpoint& checkpoint);

struct Forecast {
  Range hit_rate;             // of decoding
  Range decode;               // tokens/s of replies, short contexts
  Range prefill;              // tokens/s of prompts of many passes
  double read_per_token = 0;  // bytes from the disk per token of a reply, typical
  double disk_share = 0;      // of a reply's time that waits for the disk, typical
};

// Monotone: more slots, longer passes, a faster disk, memory or processor never lower a figure. And
// bounded by every rate it is made from: nothing is computed or read faster than it was measured.
// docs/MEMORY.md has the formulas and how they compare with runs.
Forecast MakeForecast(const ModelShape& shape, const Plan& plan, const DiskRates& disk,
                      const ComputeRates& compute);

}  // namespace slotstream::plan
