#include "server/fair_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace slotstream::server {
namespace {

std::string PopAll(FairQueue<int>& queue) {
  std::string order;
  while (const auto item = queue.Pop()) order += std::to_string(*item) + " ";
  return order;
}

TEST(FairQueue, KeysTakeTurns) {
  FairQueue<int> queue(100);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.Push("a", i));
  EXPECT_TRUE(queue.Push("b", 10));
  EXPECT_TRUE(queue.Push("c", 20));
  EXPECT_TRUE(queue.Push("b", 11));
  EXPECT_EQ(PopAll(queue), "0 10 20 1 11 2 3 ");
  EXPECT_EQ(queue.size(), 0u);
  // One who comes again stands behind those who wait.
  queue.Push("a", 1);
  queue.Push("b", 2);
  EXPECT_EQ(queue.Pop(), 1);
  queue.Push("a", 3);
  EXPECT_EQ(PopAll(queue), "2 3 ");
}

TEST(FairQueue, IsBounded) {
  FairQueue<int> queue(2);
  EXPECT_TRUE(queue.Push("a", 1));
  EXPECT_TRUE(queue.Push("b", 2));
  EXPECT_FALSE(queue.Push("c", 3));
  EXPECT_FALSE(queue.Push("a", 3));
  queue.Pop();
  EXPECT_TRUE(queue.Push("c", 3));
  EXPECT_EQ(PopAll(queue), "2 3 ");
}

TEST(FairQueue, RemovesWhatWaits) {
  FairQueue<int> queue(10);
  for (int i = 0; i < 3; ++i) queue.Push("a", i);
  queue.Push("b", 7);
  EXPECT_TRUE(queue.Remove(1));
  EXPECT_FALSE(queue.Remove(1));
  EXPECT_TRUE(queue.Remove(7));
  EXPECT_EQ(queue.size(), 2u);
  int seen = 0;
  queue.ForEach([&seen](int) { ++seen; });
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(PopAll(queue), "0 2 ");
}

}  // namespace
}  // namespace slotstream::server
