// What requests may take is bounded, and told.
#include "server/request_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "server/byte_budget.h"
#include "server/work_queue.h"

namespace slotstream::server {
namespace {

TEST(ByteBudget, IsSharedAndGivenBack) {
  auto budget = std::make_unique<ByteBudget>(100);
  auto first = budget->Take(60), second = budget->Take(40);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(budget->Take(1), nullptr);
  second.reset();
  EXPECT_EQ(budget->held(), 60u);
  EXPECT_EQ(budget->Take(41), nullptr);
  EXPECT_NE(budget->Take(40), nullptr) << "and it is given back at once";
  EXPECT_EQ(budget->held(), 60u);
  first.reset();
  EXPECT_EQ(budget->held(), 0u);
  EXPECT_EQ(budget->Take(101), nullptr) << "not even alone";
  const auto all = budget->Take(100);
  EXPECT_NE(all, nullptr);
  budget.reset();  // what is held may live longer
}

TEST(KeptBytes, CountsToolsAndIds) {
  engine::Request request;
  const uint64_t least = KeptBytes(request);
  request.ids.resize(1000);
  EXPECT_EQ(KeptBytes(request), least + 4000);
  request.chat.emplace();
  request.chat->tools = text::OrderedJson::array();
  for (int i = 0; i < 1000; ++i) request.chat->tools.push_back({{"name", std::string(100, 'x')}});
  EXPECT_GT(KeptBytes(request), least + 4000 + 1000 * (100 + sizeof(std::string) + 16));
}

// A share of the memory that does not hurt, with room for what agents send.
TEST(MostRequestBytes, GrowsWithTheMemory) {
  uint64_t last = 0;
  for (const uint64_t gigabytes : {1, 4, 16, 64, 256, 1024}) {
    ServerOptions options;
    LimitRequests(gigabytes * 1'000'000'000, options);
    HttpLimits& limits = options.http.limits;
    EXPECT_GE(limits.body_bytes, 2u << 20);
    EXPECT_LE(limits.body_bytes, limits.all_bodies_bytes);
    const uint64_t bytes = MostRequestBytes(options);
    EXPECT_GE(bytes, last);
    EXPECT_LT(bytes, 80'000'000 + gigabytes * 20'000'000);
    last = bytes;
    limits.all_bodies_bytes += 5;
    EXPECT_EQ(MostRequestBytes(options), bytes + 5) << "all bounds count";
    limits.all_unsent_bytes += 5;
    options.service.kept_bytes += 5;
    EXPECT_EQ(MostRequestBytes(options), bytes + 15);
    limits.body_bytes += 1;
    EXPECT_GT(MostRequestBytes(options), bytes + 16);
  }
}

// Large work goes one after another, on two threads; small work passes it by.
TEST(WorkQueue, OneLargePieceAtATime) {
  std::mutex mutex;
  std::condition_variable changed;
  int large_now = 0, most_large = 0, large_done = 0, small_done = 0;
  bool go_on = false;
  WorkQueue queue(3);
  const auto large = [&] {
    std::unique_lock lock(mutex);
    most_large = std::max(most_large, ++large_now);
    changed.notify_all();
    changed.wait(lock, [&] { return go_on; });
    --large_now;
    ++large_done;
    changed.notify_all();
  };
  const auto small = [&] {
    std::lock_guard lock(mutex);
    ++small_done;
    changed.notify_all();
  };
  for (int i = 0; i < 3; ++i) queue.Run(large, true);
  for (int i = 0; i < 20; ++i) queue.Run(small);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return small_done == 20 && large_now > 0; });
  EXPECT_EQ(large_done, 0);
  go_on = true;
  changed.notify_all();
  changed.wait(lock, [&] { return large_done == 3; });
  EXPECT_EQ(most_large, 1);
}

}  // namespace
}  // namespace slotstream::server
