// A replay decides as the store does, whatever the order in which reads are done.

#include "experts/replay.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "experts/expert_store.h"
#include "experts/segmented_lru.h"
#include "experts/test_formats.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kLayers = 3;
constexpr uint32_t kExperts = 20;
constexpr uint32_t kSweepRows = 10;

TEST(ReplayVisit, CountsWhatTheStoreCounts) {
  std::mt19937 rng(17);
  uint64_t swept = 0, evictions = 0;
  for (const uint32_t slots : {1u, 2u, 5u, 12u, 30u, kLayers * kExperts - 1}) {
    SCOPED_TRACE(slots);
    const io::TestDirectory directory;
    const TestExperts format(directory, kLayers, kExperts, /*staged=*/false);
    auto queue = FaultyQueue({{io::FaultKind::kLate, 0, io::Fault::kEveryLater, 0.2},
                              {io::FaultKind::kReordered, 0, io::Fault::kEveryLater, 0.5}},
                             slots);
    const auto store = ExpertStore::Create(format, std::move(queue),
                                           {.layers = kLayers,
                                            .token_needs = 4 * kLayers,
                                            .slots = slots,
                                            .sweep_records = 4,
                                            .sweep_rows = kSweepRows},
                                           Clock::Steady());
    ASSERT_TRUE(store);
    const TraceHeader header = {
        .layers = kLayers, .experts = kExperts, .top_k = 4, .sweep_rows = kSweepRows};
    SlotPool pool = SlotPool::Create(slots, 0, kLayers, kExperts,
                                     std::make_unique<SegmentedLruPolicy>(
                                         slots, ProtectedSlots(slots, 4 * kLayers)))
                        .value();
    HitCounts counts;
    for (int i = 0; i < 200; ++i) {
      const TraceVisit visit = {.layer = static_cast<uint32_t>(rng() % kLayers),
                                .rows = rng() % 4 == 0 ? kSweepRows : 1,
                                .admit = rng() % 2 == 0};
      std::vector<ExpertNeed> needs;
      for (uint32_t expert = 0; expert < kExperts; ++expert) {
        if (rng() % (visit.rows == 1 ? 5 : 2) == 0) {
          needs.push_back({expert, static_cast<uint32_t>(1 + rng() % 3)});
        }
      }
      ASSERT_TRUE((*store)->Begin(visit.layer, needs, visit.rows, visit.admit));
      // Reading ahead, rightly or not, changes nothing that the pool holds.
      if (rng() % 3 == 0) {
        (*store)->Expect(static_cast<uint32_t>(rng() % kLayers), std::vector<uint32_t>{1, 5, 9, 13},
                         2);
      } else if (rng() % 5 == 0) {
        (*store)->Expect(static_cast<uint32_t>(rng() % kLayers),
                         std::vector<uint32_t>{0, 2, 4, 6, 8}, 8);
      }
      std::vector<ReadyExpert> ready;
      do {
        ASSERT_TRUE((*store)->Next(ready));
      } while (!ready.empty());
      counts += ReplayVisit(pool, header, visit, needs);
      const StoreStats stats = (*store)->stats();
      ASSERT_EQ(counts, (HitCounts{stats.hits, stats.misses, stats.swept})) << "visit " << i;
      ASSERT_EQ(pool.evictions(), stats.evictions) << "visit " << i;
      for (uint32_t expert = 0; expert < kLayers * kExperts; ++expert) {
        const ExpertKey key{expert / kExperts, expert % kExperts};
        ASSERT_EQ(pool.Find(key), (*store)->pool().Find(key)) << "visit " << i;
      }
    }
    swept += counts.swept;
    evictions += pool.evictions();
  }
  EXPECT_GT(swept, 0u);
  EXPECT_GT(evictions, 0u);
}

}  // namespace
}  // namespace slotstream::experts
