#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>

namespace slotstream::plan {
namespace {

using checkpoint::Checkpoint;

constexpr uint64_t kGiB = uint64_t{1} << 30;

class PlanTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = Checkpoint::Open(std::string(SLOTSTREAM_SOURCE_DIR) + "/" + GetParam());
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint_ = std::move(*opened);
  }
  Result<Plan> Make(uint64_t budget, Wishes wishes = {}) const {
    wishes.memory_bytes = budget;
    return MakePlan(*checkpoint_, {.memory_available = kGiB, .cores = 3}, wishes);
  }
  // The smallest budget that a plan fits in.
  uint64_t LeastBudget(const Wishes& wishes = {}) const {
    uint64_t low = 0, high = 64 * kGiB;
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      (Make(middle, wishes) ? high : low) = middle;
    }
    return high;
  }
  static uint64_t Sum(const Plan& plan) {
    return std::accumulate(plan.ledger.begin(), plan.ledger.end(), uint64_t{0},
                           [](uint64_t sum, const LedgerLine& line) { return sum + line.bytes; });
  }
  const checkpoint::ModelConfig& config() const { return checkpoint_->config(); }

  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(PlanTest, EverythingFitsInAmpleMemory) {
  const auto plan = Make(64 * kGiB);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->slots, plan->all_slots);
  EXPECT_EQ(plan->all_slots, config().num_layers() * config().num_experts);
  EXPECT_EQ(plan->threads, 3);
  EXPECT_EQ(plan->total, Sum(*plan));
  EXPECT_LE(plan->total, plan->budget);
}

TEST_P(PlanTest, ABudgetIsKeptOrRefused) {
  std::mt19937_64 rng(21);
  const uint64_t least = LeastBudget();
  for (int i = 0; i < 200; ++i) {
    const uint64_t budget = rng() % (i % 2 == 0 ? 2 * least : 8 * least);
    const auto plan = Make(budget);
    ASSERT_EQ(plan.has_value(), budget >= least) << budget;
    if (!plan) {
      EXPECT_EQ(plan.error().code, ErrorCode::kResourceLimit);
      EXPECT_NE(plan.error().message.find(FormatBytes(budget)), std::string::npos);
      continue;
    }
    EXPECT_EQ(plan->budget, budget);
    EXPECT_EQ(plan->total, Sum(*plan));
    EXPECT_LE(plan->total, budget);
    EXPECT_GE(plan->slots, MinSlots(config()));
    EXPECT_LE(plan->slots, plan->all_slots);
  }
}

TEST_P(PlanTest, MoreMemoryNeverGivesFewerSlots) {
  const uint64_t least = LeastBudget();
  uint64_t before = 0;
  for (uint64_t budget = least; budget < 4 * least; budget += least / 97) {
    const auto plan = Make(budget);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_GE(plan->slots, before) << "budget " << budget;
    // Half of what is left over the least plan is theirs in any case.
    const uint64_t half = (budget - least) / 2 / checkpoint_->experts().shape().record_bytes();
    EXPECT_GE(plan->slots, std::min<uint64_t>(plan->all_slots, MinSlots(config()) + half));
    before = plan->slots;
  }
}

// Passes, then the sweep's ring, then the context, then the n-gram cache.
TEST_P(PlanTest, GivesWayInOrder) {
  const auto ample = Make(64 * kGiB);
  ASSERT_TRUE(ample);
  const uint64_t least = LeastBudget();
  bool shorter_passes = false, smaller_ring = false;
  for (uint64_t budget = 4 * least; budget >= least; budget -= least / 97) {
    const auto plan = Make(budget);
    ASSERT_TRUE(plan) << plan.error().message;
    shorter_passes |= plan->pass_rows < ample->pass_rows;
    smaller_ring |= plan->sweep_records < ample->sweep_records;
    EXPECT_TRUE(plan->sweep_records == ample->sweep_records || plan->pass_rows == 16);
    EXPECT_TRUE(plan->max_context == ample->max_context || plan->sweep_records == 2);
    if (plan->ngram_cache_rows == 0) {
      EXPECT_EQ(plan->max_context, std::min(2048u, ample->max_context));
    }
  }
  EXPECT_TRUE(shorter_passes);
  EXPECT_TRUE(smaller_ring);
  const auto last = Make(least);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->slots, MinSlots(config()));
  EXPECT_EQ(last->ngram_cache_rows, 0u);
}

TEST_P(PlanTest, WishesStandOrAreRefused) {
  const Wishes wishes{.slots = MinSlots(config()) + 1,
                      .pass_rows = 300,
                      .memory_bytes = {},
                      .max_context = 3000,
                      .threads = 2};
  const uint64_t least = LeastBudget(wishes);
  for (const uint64_t budget : {least, 2 * least, 64 * kGiB}) {
    const auto plan = Make(budget, wishes);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->slots, *wishes.slots);
    EXPECT_EQ(plan->pass_rows, *wishes.pass_rows);
    EXPECT_EQ(plan->max_context, *wishes.max_context);
    EXPECT_EQ(plan->threads, *wishes.threads);
    EXPECT_LE(plan->total, budget);
  }
  const auto refused = Make(least - 1, wishes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
  EXPECT_GT(least, LeastBudget());
}

// A server's requests are a line of their own: what they may take, the pool does not get.
TEST_P(PlanTest, RequestsHaveTheirLine) {
  Wishes wishes;
  wishes.request_bytes = 100'000'000;
  EXPECT_EQ(LeastBudget(wishes), LeastBudget() + wishes.request_bytes);
  const auto plan = Make(64 * kGiB, wishes);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->total, Sum(*plan));
  const auto line = std::ranges::find(plan->ledger, "requests", &LedgerLine::name);
  ASSERT_NE(line, plan->ledger.end());
  EXPECT_EQ(line->bytes, wishes.request_bytes);
  const uint64_t budget = LeastBudget(wishes) + 20 * plan->slot_bytes;
  EXPECT_LT(Make(budget, wishes)->slots, Make(budget)->slots);
}

// Every byte that the caller keeps and the largest mode's workspace are in the ledger.
TEST_P(PlanTest, CountsWhatTheCallerKeepsAndEveryMode) {
  const auto total = [&](const Wishes& wishes) {
    const auto plan = Make(64 * kGiB, wishes);
    EXPECT_TRUE(plan);
    EXPECT_EQ(plan->total, Sum(*plan));
    return plan->total;
  };
  Wishes wishes;
  const uint64_t before = total(wishes);
  wishes.kept = {.logits = 1 + 7, .streams = 9};
  EXPECT_EQ(total(wishes) - before,
            (uint64_t{7} * config().vocab_size + uint64_t{9} * config().hc_width()) * 4);
  const auto of_mode = [&](kernels::ComputeMode mode, bool every_mode) {
    Wishes wished;
    wished.compute = mode;
    wished.every_mode = every_mode;
    return total(wished);
  };
  uint64_t largest = 0;
  for (kernels::ComputeMode mode : kernels::kComputeModes) {
    largest = std::max(largest, of_mode(mode, false));
  }
  for (kernels::ComputeMode mode : kernels::kComputeModes) {
    EXPECT_EQ(of_mode(mode, true), largest) << NameOf(mode);
  }
  EXPECT_LT(of_mode(kernels::ComputeMode::kInt8, false), largest);
}

TEST_P(PlanTest, TooFewSlotsAreRefusedWithTheNumbers) {
  const uint32_t least = MinSlots(config());
  EXPECT_EQ(least, 2 * config().experts_per_token);
  EXPECT_TRUE(Make(
      kGiB,
      {.slots = least, .pass_rows = {}, .memory_bytes = {}, .max_context = {}, .threads = {}}));
  const auto plan = Make(
      kGiB,
      {.slots = least - 1, .pass_rows = {}, .memory_bytes = {}, .max_context = {}, .threads = {}});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(plan.error().message.find("--slots " + std::to_string(least - 1)), std::string::npos);
  EXPECT_NE(plan.error().message.find("at least " + std::to_string(least)), std::string::npos);
}

TEST_P(PlanTest, WishesThatMakeNoSense) {
  std::vector<Wishes> bad(6);
  bad[0].pass_rows = 0;
  bad[1].pass_rows = 20'000;
  bad[2].threads = 0;
  bad[3].threads = -1;
  bad[4].max_context = 0;
  bad[5].max_context = config().max_position_embeddings + 1;
  for (const Wishes& wishes : bad) {
    const auto plan = Make(64 * kGiB, wishes);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  }
  Wishes many;
  many.slots = UINT32_MAX;  // more than there are experts
  const auto plan = Make(64 * kGiB, many);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->slots, plan->all_slots);
}

// What other engines planned with is not there: of the machine for all of them, of the control
// group for those in it.
TEST_P(PlanTest, PlansWithWhatOthersLeft) {
  MachineFacts machine{.memory_available = 4 * kGiB, .cores = 1};
  machine.memory.machine_available = 16 * kGiB;
  machine.memory.machine_total = 20 * kGiB;
  machine.memory.group.room = 4 * kGiB;
  const auto budget = [&](uint64_t promised, uint64_t in_group) {
    machine.memory_promised = promised;
    machine.group_promised = in_group;
    const auto plan = MakePlan(*checkpoint_, machine, {});
    EXPECT_TRUE(plan) << plan.error().message;
    return plan ? plan->budget : 0;
  };
  const uint64_t alone = budget(0, 0);
  EXPECT_EQ(budget(10 * kGiB, 0), alone);
  EXPECT_LT(budget(13 * kGiB, 0), alone);
  EXPECT_EQ(budget(13 * kGiB, 0), budget(10 * kGiB, kGiB));
  machine.memory_promised = machine.group_promised = 30 * kGiB;
  const auto refused = MakePlan(*checkpoint_, machine, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("other slotstream engines"), std::string::npos);
}

TEST_P(PlanTest, WithoutAWishThePlanLeavesTheMachineSome) {
  for (const uint64_t available : {uint64_t{1'000'000'000}, 16 * kGiB}) {
    const auto plan = MakePlan(*checkpoint_, {.memory_available = available, .cores = 1}, Wishes{});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->budget, available - std::max<uint64_t>(available / 10, 256'000'000));
    EXPECT_GE(plan->budget, available / 2);
  }
  const auto none = MakePlan(*checkpoint_, {.memory_available = 0, .cores = 1}, Wishes{});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kResourceLimit);
}

INSTANTIATE_TEST_SUITE_P(Models, PlanTest,
                         ::testing::Values("models/miniature", "tests/goldens/tiny-a"),
                         [](const auto& suite) {
                           return std::string(suite.param) == "models/miniature" ? "miniature"
                                                                                 : "tiny";
                         });

TEST(FormatBytes, IsDecimal) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(999), "999 bytes");
  EXPECT_EQ(FormatBytes(1'500), "1.5 kB");
  EXPECT_EQ(FormatBytes(2'760'000), "2.8 MB");
  EXPECT_EQ(FormatBytes(104'000'000'000), "104.00 GB");
}

}  // namespace
}  // namespace slotstream::plan
