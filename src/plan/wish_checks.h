// What cannot be: wishes without sense, and plans that do not fit.
#pragma once

#include <functional>

#include "base/result.h"
#include "checkpoint/config.h"
#include "plan/plan.h"

namespace slotstream::plan {

// Available bytes that no engine on this machine has planned with.
uint64_t Unpromised(const MachineFacts& machine);

// kInvalidArgument for a wish out of its range, with the range.
Status CheckWishes(const checkpoint::ModelConfig& config, const Wishes& wishes);

// The refusal of wishes whose `least` plan is more than its budget: what it would take, part by
// part, and for each wish how much of it would fit. `price` writes a plan's ledger.
std::unexpected<Error> Refuse(const MachineFacts& machine, const Wishes& wishes, const Plan& least,
                              const std::function<void(Plan&)>& price);

// The refusal of a plan that fits its budget, which is more than there is.
std::unexpected<Error> RefuseUse(const MachineFacts& machine, const Plan& plan);

// Appends to plan.notes what it has less of than `full`, the plan before it was made to fit.
void NoteCuts(const Plan& full, Plan& plan);

}  // namespace slotstream::plan
