// Folded checkpoints through the store: every expert is a read of its own, and gets its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "checkpoint/packed_checkpoint.h"
#include "checkpoint/synth_writer.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "experts/expert_store.h"
#include "io/test_directory.h"

namespace slotstream::experts {
namespace {

constexpr uint32_t kLayers = 4, kExperts = 20, kStored = 27;  // 80 records folded by 3

TEST(FoldedStore, PoolAndSweepReadEveryRecord) {
  io::TestDirectory directory;
  nlohmann::json config = checkpoint::OddConfig();
  config["text_config"]["num_hidden_layers"] = kLayers;
  config["text_config"]["num_experts"] = kExperts;
  config["text_config"]["ple_layer_ids"] = nlohmann::json::array();
  checkpoint::SynthOptions options;
  options.config = config.dump();
  ASSERT_TRUE(checkpoint::Synthesize(directory / "whole", options));
  options.fold = 3;
  ASSERT_TRUE(checkpoint::Synthesize(directory / "folded", options));
  auto whole = checkpoint::Checkpoint::Open(directory / "whole");
  auto folded = checkpoint::Checkpoint::Open(directory / "folded");
  ASSERT_TRUE(whole);
  ASSERT_TRUE(folded) << folded.error().message;
  auto queue = checkpoint::TestQueue();

  for (const uint32_t rows : {1u, 100u}) {  // pool, sweep
    auto store = ExpertStore::Create(
        (*folded)->experts(), checkpoint::TestQueue(),
        {.layers = kLayers, .slots = kLayers * kExperts, .sweep_records = 4, .sweep_rows = 10},
        Clock::Steady());
    ASSERT_TRUE(store);
    std::vector<ExpertNeed> needs;
    for (uint32_t expert = 0; expert < kExperts; ++expert) needs.push_back({expert, 1});
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      ASSERT_TRUE((*store)->Begin(layer, needs, rows, false));
      uint32_t seen = 0;
      for (std::vector<ReadyExpert> ready;;) {
        ASSERT_TRUE((*store)->Next(ready));
        if (ready.empty()) break;
        for (const ReadyExpert& expert : ready) {
          const uint32_t stored = (layer * kExperts + expert.need) % kStored;
          auto expected = checkpoint::ReadExpert((*whole)->experts(), stored / kExperts,
                                                 stored % kExperts, *queue);
          ASSERT_TRUE(expected);
          EXPECT_TRUE(std::equal(expected->span().begin(), expected->span().end(), expert.record));
          ++seen;
        }
      }
      EXPECT_EQ(seen, kExperts);
    }
    const StoreStats stats = (*store)->stats();
    EXPECT_EQ(stats.hits, 0u);
    EXPECT_EQ(stats.bytes_read, kLayers * kExperts * (*folded)->experts().shape().record_bytes());
  }
}

}  // namespace
}  // namespace slotstream::experts
