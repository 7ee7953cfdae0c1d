#include "state/layer_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace slotstream::state {
namespace {

TEST(LayerGateTest, WhatIsOpenIsNotWaitedFor) {
  LayerGate gate(Clock::Steady());
  gate.OpenTo(3);
  gate.OpenTo(2);
  for (uint32_t layer = 0; layer < 3; ++layer) EXPECT_TRUE(gate.Wait(layer, nullptr));
  EXPECT_EQ(gate.waited_nanos(), 0u);
  EXPECT_FALSE(gate.wanted());
}

// Nobody is let through early, nobody is forgotten.
TEST(LayerGateTest, LayersAreLetThroughAsTheyOpen) {
  constexpr uint32_t kLayers = 200;
  LayerGate gate(Clock::Steady());
  std::vector<int> parts(
      kLayers);  // written by one thread, read by the other: the gate orders them
  std::thread reader([&] {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      // Now and then the other has caught up.
      while (layer % 10 == 0 && !gate.wanted()) std::this_thread::yield();
      parts[layer] = static_cast<int>(layer) + 1;
      gate.OpenTo(layer + 1);
    }
  });
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    ASSERT_TRUE(gate.Wait(layer, nullptr));
    ASSERT_EQ(parts[layer], static_cast<int>(layer) + 1);
  }
  reader.join();
  EXPECT_GT(gate.waited_nanos(), 0u);  // at least for the first layer
  EXPECT_FALSE(gate.wanted());
}

TEST(LayerGateTest, WhatBreaksItEndsEveryWait) {
  LayerGate gate(Clock::Steady());
  gate.OpenTo(1);
  std::thread reader([&] {
    while (!gate.wanted()) std::this_thread::yield();
    gate.Break({ErrorCode::kCorrupt, "first"});
    gate.Break({ErrorCode::kIo, "second"});
  });
  const Status status = gate.Wait(1, nullptr);
  reader.join();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "first");
  EXPECT_EQ(gate.broken()->message, "first");
  // In vain, so not even what is there.
  EXPECT_FALSE(gate.Wait(0, nullptr));
}

TEST(LayerGateTest, ACancelEndsAWait) {
  LayerGate gate(Clock::Steady());
  std::atomic<bool> cancel = false;
  std::thread owner([&] {
    while (!gate.wanted()) std::this_thread::yield();
    cancel = true;
  });
  const Status status = gate.Wait(0, &cancel);
  owner.join();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  // Whoever did not cancel is let through.
  gate.OpenTo(1);
  EXPECT_TRUE(gate.Wait(0, nullptr));
}

}  // namespace
}  // namespace slotstream::state
