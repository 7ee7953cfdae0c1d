#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "experts/ngram_store.h"
#include "generate/constraint_memory.h"
#include "model/model.h"
#include "plan/wish_checks.h"
#include "state/sequence.h"

namespace slotstream::plan {
namespace {

using checkpoint::Checkpoint;
using checkpoint::ModelConfig;
using checkpoint::Part;

// Code, libraries, thread stacks, tokenizer and allocator slack. The program without a model is
// 12 MB resident, a vocabulary of 250,000 tokens about 60 MB more.
constexpr uint64_t kProcessBytes = 24'000'000;
constexpr uint64_t kBytesPerVocabularyEntry = 256;

constexpr uint32_t kDefaultContext = 32'768;
constexpr uint32_t kMinContext = 2048;
constexpr uint32_t kDefaultPassRows = 512;
constexpr uint32_t kMinPassRows = 16;
// From here on a pass needs most experts of a layer, so that it sweeps.
constexpr uint32_t kSweepRows = 32;
// 16 records of 2.76 MB: half of the ring keeps the disk busy while the other half is computed.
constexpr uint32_t kSweepRecords = 16;
// More of them let the disk work on while a layer's dense part computes, up to half of a layer
// (prefill of 256 rows, time with reads that was hidden: 0.73 with 16 records, 0.99 with 256). They
// are taken from the pool, so they have this share of what the smallest plan leaves.
constexpr uint64_t kStagingShare = 16;
constexpr uint32_t kMinSweepRecords = 2;
// Rows in flight: enough for a random-read disk's best depth.
constexpr uint32_t kNgramAreas = 256;
// 2^20 rows of 100 bytes; common n-grams repeat within a conversation.
constexpr uint64_t kNgramCacheRows = 1 << 20;
// The prefix cache's part of what the smallest plan leaves.
constexpr uint64_t kPrefixCacheShare = 8;
constexpr uint64_t kPrefixConversations = 4;
// An n-gram cache takes at most this share of the budget.
constexpr uint64_t kNgramCacheShare = 32;

class Ledger {
 public:
  explicit Ledger(Plan& plan) : plan_(plan) {
    plan_.ledger.clear();
    plan_.total = 0;
  }
  void Add(const char* name, uint64_t bytes) {
    plan_.ledger.push_back({name, bytes});
    plan_.total += bytes;
  }

 private:
  Plan& plan_;
};

// Writes the ledger of a plan whose sizes are chosen.
void Price(const Checkpoint& checkpoint, Plan& plan) {
  const ModelConfig& config = checkpoint.config();
  const auto& format = checkpoint.experts();
  const uint64_t record = format.shape().record_bytes();
  Ledger ledger(plan);
  ledger.Add("trunk", checkpoint.layout(Part::kTrunk)->bytes);
  ledger.Add("expert pool", plan.slots * record);
  ledger.Add("expert staging", plan.sweep_records * (record + format.staging_bytes()));
  uint64_t ngram = 0;
  for (size_t i = 0; i < config.ple_layers.size(); ++i) {
    const auto& rows = checkpoint.ngrams(i);
    // Per row of the cache also its number; per token of a pass its rows.
    ngram += plan.ngram_cache_rows * (rows.row_bytes() + 9) +
             plan.ngram_areas * rows.staging_bytes() +
             uint64_t{plan.pass_rows} * config.ngram_heads() * (rows.row_bytes() + 64);
  }
  ledger.Add("n-gram cache", ngram);
  const model::ModelOptions options{
      .max_rows = plan.pass_rows, .compute = plan.compute, .every_mode = plan.every_mode};
  const uint64_t kept =
      plan.kept.logits * config.vocab_size + plan.kept.streams * config.hc_width();
  ledger.Add("pass workspace", model::Model::WorkspaceBytes(checkpoint, options, plan.threads) +
                                   kept * sizeof(float));
  ledger.Add("context", state::SequenceBytes(config, plan.max_context));
  ledger.Add("constraints", generate::ConstraintBytes(config.vocab_size));
  if (plan.request_bytes > 0) ledger.Add("requests", plan.request_bytes);
  if (plan.prefix_cache_bytes > 0) ledger.Add("prefix cache", plan.prefix_cache_bytes);
  ledger.Add("process", kProcessBytes + config.vocab_size * kBytesPerVocabularyEntry);
}

// How far the pool may move once the engine runs.
void SetBounds(const ModelConfig& config, const MachineFacts& machine, const Wishes& wishes,
               Plan& plan) {
  plan.least_slots = wishes.slots || wishes.fixed ? plan.slots : MinSlots(config);
  plan.most_slots = plan.slots;
  if (wishes.slots || wishes.fixed || wishes.memory_bytes || machine.memory_total == 0) return;
  MachineFacts empty = machine;
  empty.memory_available = machine.memory_total;
  const uint64_t budget = DefaultBudget(empty);
  if (budget <= plan.total) return;
  plan.most_slots = static_cast<uint32_t>(
      std::min<uint64_t>(plan.all_slots, plan.slots + (budget - plan.total) / plan.slot_bytes));
}

}  // namespace

uint64_t DefaultBudget(const MachineFacts& machine) {
  // Who has a control group to himself shares it with nobody but the kernel's books about him.
  const bool alone = machine.memory.group.limit < machine.memory.machine_total;
  const uint64_t least = alone ? 32'000'000 : 256'000'000;
  const uint64_t available = Unpromised(machine);
  return available - std::min(available / 2, std::max<uint64_t>(available / 10, least));
}

uint32_t MinSlots(const ModelConfig& config) { return 2 * config.experts_per_token; }

std::string FormatBytes(uint64_t bytes) {
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  if (bytes >= 1'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{} bytes", bytes);
}

std::string Plan::Summary() const {
  return fmt::format("{} of {} expert slots, passes of {} tokens, {} planned of {}", slots,
                     all_slots, pass_rows, FormatBytes(total), FormatBytes(budget));
}

Result<Plan> MakePlan(const Checkpoint& checkpoint, const MachineFacts& machine,
                      const Wishes& wishes) {
  SS_RETURN_IF_ERROR(CheckWishes(checkpoint.config(), wishes));
  const ModelConfig& config = checkpoint.config();
  const auto& format = checkpoint.experts();
  const uint64_t record = format.shape().record_bytes();

  Plan plan;
  plan.budget = wishes.memory_bytes.value_or(DefaultBudget(machine));
  plan.threads = wishes.threads.value_or(machine.cores);
  plan.compute = wishes.compute;
  plan.every_mode = wishes.every_mode;
  plan.kept = wishes.kept;
  plan.request_bytes = wishes.request_bytes;
  plan.prefix_cache_bytes = wishes.prefix_cache_bytes.value_or(0);
  plan.fixed = wishes.fixed;
  // The draft head's experts have slots too only once it runs; the trunk's layers count here.
  plan.all_slots = config.num_layers() * config.num_experts;
  plan.slot_bytes = record;
  plan.slots = wishes.slots ? std::min(*wishes.slots, plan.all_slots) : MinSlots(config);
  plan.max_context =
      wishes.max_context.value_or(std::min(kDefaultContext, config.max_position_embeddings));
  plan.pass_rows = std::min(wishes.pass_rows.value_or(kDefaultPassRows), plan.max_context);
  plan.sweep_rows = kSweepRows;
  plan.sweep_records = kSweepRecords;
  plan.ngram_areas = kNgramAreas;
  plan.ngram_cache_rows = 0;
  if (!config.ple_layers.empty()) {
    const uint64_t row = checkpoint.ngrams(0).row_bytes() + 9;
    plan.ngram_cache_rows = std::min(
        {kNgramCacheRows, plan.budget / kNgramCacheShare / row, checkpoint.ngrams(0).rows()});
  }
  Price(checkpoint, plan);

  // What is not asked for can be had for less.
  Plan least = plan;
  if (!wishes.pass_rows) least.pass_rows = std::min(kMinPassRows, plan.pass_rows);
  if (!wishes.max_context) least.max_context = std::min(kMinContext, plan.max_context);
  least.least_slots = MinSlots(config);
  least.sweep_records = kMinSweepRecords;
  least.ngram_cache_rows = 0;
  Price(checkpoint, least);
  if (least.total > plan.budget) {
    return Refuse(machine, wishes, least, [&](Plan& changed) { Price(checkpoint, changed); });
  }

  // States of conversations save minutes of reading where a slot saves milliseconds, but only while
  // they are few: four conversations of the whole context are all that is asked for.
  if (!wishes.prefix_cache_bytes) {
    plan.prefix_cache_bytes =
        std::min((plan.budget - least.total) / kPrefixCacheShare,
                 kPrefixConversations * state::SequenceBytes(config, plan.max_context));
    least.prefix_cache_bytes = plan.prefix_cache_bytes;
    Price(checkpoint, plan);
    Price(checkpoint, least);
  }
  const uint64_t for_staging = (plan.budget - least.total) / kStagingShare / record;
  plan.sweep_records = static_cast<uint32_t>(std::clamp<uint64_t>(
      for_staging, kSweepRecords, std::max(kSweepRecords, config.num_experts / 2)));
  Price(checkpoint, plan);

  // Half of what is left goes to slots before anything else may have its full size, and the other
  // half goes to nothing but the rest while that is cut short: so more memory never gives fewer
  // slots.
  uint64_t more_slots = 0, share = 0;
  if (!wishes.slots) {
    share = std::min((plan.budget - least.total) / 2, (plan.all_slots - plan.slots) * record);
    more_slots = share / record;
  }
  const uint64_t limit = plan.budget - share;
  const bool all_fits = plan.total <= limit;
  const Plan full = plan;
  // The most of `value` that fits, down to `smallest`.
  const auto shrink = [&](auto& value, uint64_t smallest) {
    if (plan.total <= limit || value <= smallest) return;
    uint64_t fits = smallest, fails = value;
    const auto set = [&](uint64_t size) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(size);
      Price(checkpoint, plan);
    };
    while (fails - fits > 1) {
      const uint64_t middle = fits + (fails - fits) / 2;
      set(middle);
      (plan.total <= limit ? fits : fails) = middle;
    }
    set(fits);
  };
  // Cheapest to lose first.
  shrink(plan.pass_rows, least.pass_rows);
  shrink(plan.sweep_records, least.sweep_records);
  shrink(plan.max_context, least.max_context);
  shrink(plan.ngram_cache_rows, least.ngram_cache_rows);
  if (!wishes.slots) {
    if (all_fits) more_slots = (plan.budget - plan.total) / record;
    plan.slots = static_cast<uint32_t>(std::min<uint64_t>(plan.slots + more_slots, plan.all_slots));
    Price(checkpoint, plan);
  }
  if (plan.total > Unpromised(machine)) return RefuseUse(machine, plan);
  SetBounds(config, machine, wishes, plan);
  NoteCuts(full, plan);
  return plan;
}

}  // namespace slotstream::plan
