#include "plan/wish_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <type_traits>

namespace slotstream::plan {
namespace {

constexpr uint32_t kMaxPassRows = 16'384;
constexpr int kMaxThreads = 1024;

std::string Ledger(const Plan& plan) {
  std::string parts;
  for (const LedgerLine& line : plan.ledger) {
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", line.name, FormatBytes(line.bytes));
  }
  return parts;
}

// What other engines hold, for the end of a sentence.
std::string Promised(const MachineFacts& machine) {
  const uint64_t promised = machine.memory_available - Unpromised(machine);
  if (promised == 0) return "";
  return fmt::format("; {} more are available, but other slotstream engines planned with them",
                     FormatBytes(promised));
}

// The most of `member` from `least` up that fits the plan's budget; 0 if not even that does.
template <typename Member>
uint64_t MostThatFits(Plan plan, Member member, uint64_t least,
                      const std::function<void(Plan&)>& price) {
  const auto fits = [&](uint64_t value) {
    plan.*member = static_cast<std::remove_reference_t<decltype(plan.*member)>>(value);
    price(plan);
    return plan.total <= plan.budget;
  };
  uint64_t fails = plan.*member;
  if (least >= fails || !fits(least)) return 0;
  while (fails - least > 1) {
    const uint64_t middle = least + (fails - least) / 2;
    (fits(middle) ? least : fails) = middle;
  }
  return least;
}

}  // namespace

uint64_t Unpromised(const MachineFacts& machine) {
  const auto less = [](uint64_t bytes, uint64_t promised) {
    return bytes - std::min(bytes, promised);
  };
  // Who runs in another control group takes the machine's memory, but not this group's.
  return std::min({machine.memory_available,
                   less(machine.memory.machine_available, machine.memory_promised),
                   less(machine.memory.group.room, machine.group_promised)});
}

Status CheckWishes(const checkpoint::ModelConfig& config, const Wishes& wishes) {
  const uint32_t min_slots = MinSlots(config);
  if (wishes.slots && *wishes.slots < min_slots) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--slots {} is too few: this model needs at least {} (twice the {} "
                            "experts of a token)",
                            *wishes.slots, min_slots, config.experts_per_token));
  }
  if (wishes.pass_rows && (*wishes.pass_rows < 1 || *wishes.pass_rows > kMaxPassRows)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--pass {} is out of range: 1 to {} tokens", *wishes.pass_rows, kMaxPassRows));
  }
  if (wishes.threads && (*wishes.threads < 1 || *wishes.threads > kMaxThreads)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--threads {} is out of range: 1 to {}", *wishes.threads, kMaxThreads));
  }
  if (wishes.max_context &&
      (*wishes.max_context < 1 || *wishes.max_context > config.max_position_embeddings)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a context of {} tokens is out of range: this model takes 1 to {}",
                            *wishes.max_context, config.max_position_embeddings));
  }
  return {};
}

std::unexpected<Error> Refuse(const MachineFacts& machine, const Wishes& wishes, const Plan& least,
                              const std::function<void(Plan&)>& price) {
  std::string message = fmt::format(
      "{} of memory are too little: with {} slots, passes of {} tokens and a context of {} at "
      "least {} are needed ({})",
      FormatBytes(least.budget), least.slots, least.pass_rows, least.max_context,
      FormatBytes(least.total), Ledger(least));
  const auto hint = [&](const char* flag, uint64_t most) {
    if (most > 0) message += fmt::format("; {} {} would fit", flag, most);
  };
  if (wishes.slots) hint("--slots", MostThatFits(least, &Plan::slots, least.least_slots, price));
  if (wishes.pass_rows) hint("--pass", MostThatFits(least, &Plan::pass_rows, 1, price));
  if (wishes.max_context) hint("--max-context", MostThatFits(least, &Plan::max_context, 1, price));
  if (!wishes.memory_bytes) message += Promised(machine);
  return Fail(ErrorCode::kResourceLimit, std::move(message));
}

std::unexpected<Error> RefuseUse(const MachineFacts& machine, const Plan& plan) {
  return Fail(ErrorCode::kResourceLimit,
              fmt::format("the plan takes {} of memory, but {} are available{}; --memory-gb {:.1f} "
                          "would leave the machine a tenth",
                          FormatBytes(plan.total), FormatBytes(Unpromised(machine)),
                          Promised(machine), static_cast<double>(DefaultBudget(machine)) / 1e9));
}

void NoteCuts(const Plan& full, Plan& plan) {
  const auto note = [&](bool cut, std::string text) {
    if (cut) plan.notes.push_back(std::move(text));
  };
  note(plan.pass_rows < full.pass_rows,
       fmt::format("prompts are read {} tokens at a time instead of {}, so that experts have at "
                   "least half of what is left",
                   plan.pass_rows, full.pass_rows));
  note(plan.max_context < full.max_context,
       fmt::format("the context is {} tokens instead of {}; --max-context asks for more at the "
                   "cost of slots",
                   plan.max_context, full.max_context));
  note(plan.ngram_cache_rows < full.ngram_cache_rows,
       fmt::format("the n-gram cache holds {} rows instead of {}", plan.ngram_cache_rows,
                   full.ngram_cache_rows));
}

}  // namespace slotstream::plan
